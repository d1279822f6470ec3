// The driver again, in node: node-llama-cpp's own addon and libraries, called as its JavaScript calls them. It makes
// an ubatch as large as a batch and synchronizes behind each, but a batch that holds several sequences of different
// lengths is split by length: those ubatches follow one another in one llama_decode.
// Environment: LIBS, MODEL, LAYERS as the driver's; LENGTHS (of the prompts, one a sequence), DECODE.
"use strict";

const path = require("node:path");

const libraries = process.env.LIBS;
const addon = require(path.join(libraries, "llama-addon.node"));

function prompt(length, vocabulary, seed) {
    let state = seed;
    const tokens = new Uint32Array(length);
    for (let i = 0; i < length; i++) {
        state = (Math.imul(state, 1103515245) + 12345) >>> 0;
        tokens[i] = 3 + (state >>> 16) % (vocabulary - 3);
    }
    return tokens;
}

async function open() {
    addon.setLogger(() => {});
    addon.loadBackends();
    addon.loadBackends(libraries);
    await addon.init();
    const layers = Number(process.env.LAYERS ?? 0);
    const model = new addon.AddonModel(process.env.MODEL, {addonExports: addon, gpuLayers: layers, useMmap: true});
    if (!await model.init()) throw new Error("no model");
    return model;
}

// One llama_decode for all sequences; the next token of each.
async function step(context, sampler, pieces, positions) {
    context.initBatch(pieces.reduce((sum, piece) => sum + piece.length, 0));
    const outputs = pieces.map(
        (piece, i) => context.addToBatch(i, positions[i], piece, Uint32Array.of(piece.length - 1))[0]
    );
    await context.decodeBatch();
    const tokens = [];
    for (const output of outputs) tokens.push(await context.sampleToken(output, sampler));
    return tokens;
}

async function main() {
    const model = await open();
    const lengths = (process.env.LENGTHS ?? "64").split(",").map(Number);
    const context = new addon.AddonContext(
        model, {contextSize: 256 * lengths.length, batchSize: 256, sequences: lengths.length, flashAttention: false, threads: 1}
    );
    if (!await context.init()) throw new Error("no context");
    const sampler = new addon.AddonSampler(model);
    sampler.applyConfig({temperature: 0});
    let pieces = lengths.map((length, i) => prompt(length, 288, 7 + i));
    const positions = lengths.map(() => 0);
    for (let i = 0; i <= Number(process.env.DECODE ?? 8); i++) {
        const tokens = await step(context, sampler, pieces, positions);
        console.log(tokens.join(" "));
        positions.forEach((_, k) => positions[k] += pieces[k].length);
        pieces = tokens.map((token) => Uint32Array.of(token));
    }
    await context.dispose();
    await model.dispose();
    await addon.dispose();
}

main().catch((error) => {
    console.error(error);
    process.exitCode = 1;
});
