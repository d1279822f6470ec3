"""What a trace holds, and where the in-place hazard can arise: what `info` tells.

JSON (`--format json`; keys may be added, never renamed or dropped within format 1; null: the trace does not say):

    format            1
    trace             path, format (`jsonl`, `arrow file`, `arrow stream`, or the kind of an imported log), rows,
                      dropped_bytes
    meta              producer, engine, engine_version, command (list), started_at, threads (`one`, `ordered`), notes,
                      env (object)
    hazard            verdict, queues (names of those that have this verdict)
    devices           [{name, type, verdict, queues}], one for each device name
    queues            [{name, id, row (of its definition; -1: none), freed, device, type, async, synchronous, events,
                      integrated, host_buffer, accepts, drains, schedulers (ids), work ({event: count}),
                      in_place ([{buffer_type, works, bytes_read, bytes_written}]),
                      hazard: {verdict, reason, buffer_types, declared, assumed, assumed_of}}]; declared and assumed:
                      the attributes that decided, by where they are from; assumed_of: the backend and the versions
                      of it that the assumed ones hold for, null where nothing is assumed
    in_place_partial  true: `in_place` may miss work, its graphs were forgotten
    schedulers        [{id, row, backends (ids), queues (names), cpu_buffer_type, copies, ring}]
    rotations         `sched_prepare` events that rotated
    buffers           lives, empty_lives, peak_bytes, total_bytes, types: [{type, usage, host, lives, empty_lives,
                      peak_bytes, total_bytes}]
    events            {event: rows}
    skipped_rows      rows among them that count for nothing
    direct            set, set_inferred, get, get_inferred
    ubatches          ubatches, tokens, phases: [{phase, ubatches, tokens, numbers}], numbers_on_events
    threads           host threads of accesses and edges
    time              first_ns, last_ns, duration_ns
    warnings          sentences

`verdict` is `can arise`, `no` or `not known`; `numbers` are lists of inclusive [first, last] pairs. `async` is null
where absent, and counts as true then (contract section 2).
"""
