#include "kernel.hpp"

#include "hbtrace.h"

namespace hb {

namespace {

enum Kind { READ_AFTER_WRITE, WRITE_AFTER_WRITE, WRITE_AFTER_READ };

}  // namespace

// --- steps

void Kernel::run(const Program &program, u64 visits, u64 races) {
  static_assert(HITS_OF_ONE == HB_HIT, "one size of a hit");
  hits.clear();
  end_ = visited_ + visits;
  most_ = races;
  try {
    define(program);
    step(program.code, program.steps);
  } catch (const Enough &) {
    try {
      if (!met_.empty()) tell();
    } catch (const Enough &) {
    }
  }
}

void Kernel::count(u64 visits) {
  visited_ += visits;
  if (visited_ > end_) throw Enough();
}

void Kernel::define(const Program &program) {
  if (program.forget_footprints) forget_footprints();
  for (i64 k = 0; k < program.count; k++) {
    const i64 *first = program.begin(k);
    footprints_.define(program.footprints[k], first, program.end(k), [this](i64 number) { return space_at(number); });
  }
}

void Kernel::step(const i64 *code, i64 steps) {
  for (const i64 *at = code, *end = code + 5 * steps; at < end; at += 5) {
    const i64 a = at[1], b = at[2], footprint = at[3], row = at[4];
    switch (at[0]) {
      case QUEUE: {
        u32 queue = clocks_.actor(a), thread = clocks_.actor(b);
        clocks_.join(queue, thread);
        clocks_.tick(queue);
        if (footprint >= 0) access(queue, footprint, row);
        break;
      }
      case HOST: {
        u32 thread = clocks_.actor(a);
        clocks_.tick(thread);
        if (footprint >= 0) access(thread, footprint, row);
        break;
      }
      case JOIN: {
        u32 actor = clocks_.actor(a), other = clocks_.actor(b);
        clocks_.join(actor, other);
        break;
      }
      case RECORD: clocks_.record(clocks_.actor(a), b); break;
      case RELEASE: clocks_.release(clocks_.actor(a), b); break;
      case WAIT: clocks_.wait(clocks_.actor(a), b); break;
      case DROP: clocks_.drop(b); break;
      case END: end_space(a); break;
      case ALSO: {
        u32 actor = clocks_.actor(a);
        if (clocks_.known(actor).of(actor) == 0) throw BadProgram();  // it is in no epoch
        access(actor, footprint, row);
        break;
      }
      default: throw BadProgram();
    }
  }
}

void Kernel::access(u32 actor, i64 footprint, i64 row) {
  Footprint &print = footprints_.at(footprint);
  if (print.count == 0) return;
  if (epochs_.size() >= epochs_at_most_) drop_epochs();
  const Clock &known = clocks_.known(actor);
  now_ = {actor, NONE, known.of(actor), row, &known};
  if (closed_ && actor == 0) {
    count(print.count);
    for (u32 k = 0; k < print.count; k++) unremembered(footprints_.atoms[print.first + k]);
  } else if (print.count < RESIDENT_ATOMS) {
    count(print.count);
    visit_small(print);
  } else {
    visit_resident(print);
  }
  if (!met_.empty()) tell();
}

void Kernel::visit_small(const Footprint &print) {
  now_.epoch = narrow(epochs_.size());
  epochs_.push_back({now_.clock, now_.row, now_.actor});
  if (print.count == 1) {
    Atom &atom = footprints_.atoms[print.first];
    Cell *cell = find(atom);
    if (!plain(atom, cell)) visit(atom, cell, NONE, 0);
    return;
  }
  // All that are plain come first, as in the twin: cutting for one atom can make another's cell.
  others_.clear();
  for (u32 k = print.first, end = print.first + print.count; k < end; k++)
    if (!plain(footprints_.atoms[k], find(footprints_.atoms[k]))) others_.push_back(k);
  for (u32 k : others_) visit(footprints_.atoms[k], find(footprints_.atoms[k]), NONE, 0);
}

void Kernel::visit_resident(Footprint &print) {
  u32 home = resident_of(print);
  now_.epoch = residents_[home].epoch;
  epochs_[now_.epoch].clock = now_.clock;
  epochs_[now_.epoch].row = now_.row;
  if (!residents_[home].stale()) return;
  residents_[home].take(others_);
  count(others_.size());
  for (u32 k : others_) {
    Atom &atom = footprints_.atoms[print.first + k];
    visit(atom, find(atom), home, k);
  }
}

u32 Kernel::resident_of(Footprint &print) {
  auto found = std::lower_bound(print.residents.begin(), print.residents.end(), now_.actor,
                                [](const std::pair<u32, u32> &entry, u32 actor) { return entry.first < actor; });
  if (found != print.residents.end() && found->first == now_.actor) return found->second;
  u32 epoch = narrow(epochs_.size()), made = narrow(residents_.size());
  epochs_.push_back({now_.clock, now_.row, now_.actor});
  residents_.emplace_back(epoch, print.count);
  print.residents.insert(found, {now_.actor, made});
  return made;
}

// --- races

bool Kernel::raced_by(const Entry &entry) const {
  if (entry.epoch == NONE) return false;
  const Epoch &epoch = epochs_[entry.epoch];
  return epoch.actor != now_.actor && epoch.clock > now_.known->of(epoch.actor);
}

// Whether any access of the atom races with what the cell remembers of [lo, hi).
bool Kernel::check(const Atom &atom, i64 lo, i64 hi, const Cell &cell) {
  bool raced = false;
  if (raced_by(cell.write)) {
    for (u32 k = 0; k < atom.reads; k++) meet(footprints_.reads[atom.reads_at + k], cell.write, READ_AFTER_WRITE, atom, lo, hi);
    if (atom.first_write >= 0) meet(atom.first_write, cell.write, WRITE_AFTER_WRITE, atom, lo, hi);
    raced = true;
  }
  if (atom.first_write < 0) return raced;
  auto look = [&](const Entry &read) {
    if (!raced_by(read)) return;
    meet(atom.first_write, read, WRITE_AFTER_READ, atom, lo, hi);
    raced = true;
  };
  look(cell.read);
  if (cell.more != NONE)
    for (const Reader &reader : readers_[cell.more]) look(reader.entry);
  return raced;
}

void Kernel::meet(i32 number, const Entry &earlier, i32 kind, const Atom &atom, i64 lo, i64 hi) {
  const Epoch &epoch = epochs_[earlier.epoch];
  met_.push_back({number, earlier.number, kind, epoch.actor, epoch.row, epoch.clock, lo, hi,
                  static_cast<u64>(hi) - static_cast<u64>(lo), atom.space});
  if (met_.size() >= join_met_at_) {
    join_met();
    if (met_.size() > races_left()) throw Enough();
    join_met_at_ = std::max(MET_BEFORE_JOINING, 2 * met_.size());
  }
}

// Fragments of one race are one.
void Kernel::join_met() {
  std::stable_sort(met_.begin(), met_.end());
  size_t kept = 0;
  for (size_t k = 1; k < met_.size(); k++) {
    if (met_[kept] < met_[k]) {
      met_[++kept] = met_[k];
      continue;
    }
    met_[kept].lo = std::min(met_[kept].lo, met_[k].lo);
    met_[kept].hi = std::max(met_[kept].hi, met_[k].hi);
    met_[kept].bytes += met_[k].bytes;
  }
  met_.resize(kept + 1);
}

void Kernel::tell() {
  if (met_.size() > 1) join_met();
  const bool enough = met_.size() > races_left();
  if (enough) met_.resize(races_left() + 1);
  for (const Met &met : met_) {
    const i64 hit[HB_HIT] = {now_.row, met.number, met.earlier_row, met.earlier_number, met.kind,
                             clocks_.number(now_.actor), now_.clock, clocks_.number(met.earlier_actor), met.earlier_clock,
                             now_.known->of(met.earlier_actor), space_numbers_[met.space], met.lo, met.hi,
                             static_cast<i64>(met.bytes)};
    hits.insert(hits.end(), hit, hit + HB_HIT);
  }
  met_.clear();
  join_met_at_ = MET_BEFORE_JOINING;
  if (enough) throw Enough();
}

// --- one atom

Cell *Kernel::find(Atom &atom) {
  if (atom.hint->is(atom.space, atom.lo, atom.hi)) return atom.hint;
  Cell *cell = spaces_[atom.space].exact(atom.lo, atom.hi);
  if (cell != nullptr) atom.hint = cell;
  return cell;
}

// An atom that is one cell with nothing to race with, nobody's home; false: not such a one, and nothing was done.
bool Kernel::plain(const Atom &atom, Cell *cell) {
  if (cell == nullptr || cell->home != NONE || raced_by(cell->write)) return false;
  if (atom.last_write < 0) {
    add_read(*cell, {now_.epoch, static_cast<u32>(atom.last_read)});
    return true;
  }
  if (cell->more != NONE || (cell->read.epoch != NONE && epochs_[cell->read.epoch].actor != now_.actor)) return false;
  cell->write = {now_.epoch, static_cast<u32>(atom.last_write)};
  cell->read = atom.last_read < 0 ? Entry{} : Entry{now_.epoch, static_cast<u32>(atom.last_read)};
  return true;
}

void Kernel::visit(const Atom &atom, Cell *cell, u32 home, u32 index) {
  if (cell == nullptr) {
    visit_many(atom, home, index);
    return;
  }
  bool raced = check(atom, atom.lo, atom.hi, *cell);
  mark(*cell, home);
  if (atom.last_write >= 0) {
    drop_reads(*cell);
    cell->write = {now_.epoch, static_cast<u32>(atom.last_write)};
    if (atom.last_read >= 0) cell->read = {now_.epoch, static_cast<u32>(atom.last_read)};
  } else {
    add_read(*cell, {now_.epoch, static_cast<u32>(atom.last_read)});
  }
  settle(*cell, raced, home, index);
}

// The cell's home must look at it again, unless it is the one that does now.
void Kernel::mark(const Cell &cell, u32 home) {
  if (cell.home != NONE && cell.home != home) residents_[cell.home].mark(cell.atom);
}

void Kernel::settle(Cell &cell, bool raced, u32 home, u32 index) {
  if (raced && home != NONE) {
    residents_[home].mark(index);  // the next pass races again and must be told
    home = NONE;
  }
  cell.home = home;
  cell.atom = index;
}

// As `visit`, where the atom is not exactly one cell.
void Kernel::visit_many(const Atom &atom, u32 home, u32 index) {
  cut_out(atom);
  count(inside_.size());
  bool raced = false;
  for (const Cell &cell : inside_) raced |= check(atom, cell.lo, cell.hi, cell);
  if (atom.last_write >= 0) keep_write(atom, raced, home, index);
  else keep_read(atom, raced, home, index);
  replace(atom);
}

void Kernel::keep_write(const Atom &atom, bool raced, u32 home, u32 index) {
  for (Cell &cell : inside_) {
    mark(cell, NONE);
    drop_reads(cell);
  }
  Cell cell{atom.lo, atom.hi, {now_.epoch, static_cast<u32>(atom.last_write)}, {}, NONE, NONE, 0, atom.space};
  if (atom.last_read >= 0) cell.read = {now_.epoch, static_cast<u32>(atom.last_read)};
  settle(cell, raced, home, index);
  inside_.assign(1, cell);
}

void Kernel::keep_read(const Atom &atom, bool raced, u32 home, u32 index) {
  std::vector<Cell> filled;
  filled.swap(fresh_);
  filled.clear();
  auto fill = [&](i64 from, i64 to) {
    if (from < to) filled.push_back({from, to, {}, {}, NONE, NONE, 0, atom.space});
  };
  i64 at = atom.lo;
  for (const Cell &cell : inside_) {
    fill(at, cell.lo);
    filled.push_back(cell);
    at = cell.hi;
  }
  fill(at, atom.hi);
  for (Cell &cell : filled) {
    mark(cell, home);
    drop_known(cell);
    add_read(cell, {now_.epoch, static_cast<u32>(atom.last_read)});
    settle(cell, raced, home, index);
  }
  merge(filled);
  inside_.swap(filled);
  fresh_.swap(filled);
}

// The host's own access in a closed world: checked, and what a write forgets is forgotten.
void Kernel::unremembered(Atom &atom) {
  if (atom.first_write < 0) {
    Cell *cell = find(atom);
    if (cell != nullptr) {
      count(1);
      check(atom, atom.lo, atom.hi, *cell);
      return;
    }
    spaces_[atom.space].overlapping(atom.lo, atom.hi, inside_);
    count(inside_.size());
    for (const Cell &each : inside_) check(atom, std::max(each.lo, atom.lo), std::min(each.hi, atom.hi), each);
    return;
  }
  if (Cell *cell = find(atom)) {
    // The usual case: an input is set again as a whole. The cell stays, empty, for whoever reads it next.
    check(atom, atom.lo, atom.hi, *cell);
    mark(*cell, NONE);
    drop_reads(*cell);
    cell->write = {};
    cell->home = NONE;
    return;
  }
  cut_out(atom);
  count(inside_.size());
  for (Cell &cell : inside_) {
    check(atom, cell.lo, cell.hi, cell);
    mark(cell, NONE);
    drop_reads(cell);
  }
  inside_.clear();
  replace(atom);
}

// --- cells

// The cells that share a byte with the atom, cut at its edges, into `inside_`; what lies over them is put back by
// `replace`, which follows.
void Kernel::cut_out(const Atom &atom) {
  place_ = spaces_[atom.space].overlapping(atom.lo, atom.hi, inside_);
  gone_ = inside_.size();
  left_.space = right_.space = NONE;
  if (inside_.empty()) return;
  if (inside_.front().lo < atom.lo) {
    left_ = copy_of(inside_.front());
    left_.hi = inside_.front().lo = atom.lo;
  }
  if (inside_.back().hi > atom.hi) {
    right_ = copy_of(inside_.back());
    right_.lo = inside_.back().hi = atom.hi;
  }
}

void Kernel::replace(const Atom &atom) {
  Space &space = spaces_[atom.space];
  if (left_.space != NONE) inside_.insert(inside_.begin(), left_);
  if (right_.space != NONE) inside_.push_back(right_);
  space.replace(leaves_, place_, gone_, inside_.data(), inside_.size());
  cells_ += inside_.size();
  cells_ -= gone_;
}

Cell Kernel::copy_of(const Cell &cell) {
  Cell copy = cell;
  if (cell.more != NONE) copy.more = take_readers(readers_[cell.more]);
  return copy;
}

u32 Kernel::take_readers(Readers readers) {
  u32 place;
  if (free_readers_.empty()) {
    place = narrow(readers_.size());
    readers_.emplace_back();
  } else {
    place = free_readers_.back();
    free_readers_.pop_back();
  }
  readers_[place].swap(readers);
  return place;
}

void Kernel::add_read(Cell &cell, const Entry &entry) {
  if (cell.more == NONE) {
    if (cell.read.epoch == NONE || epochs_[cell.read.epoch].actor == now_.actor) {
      cell.read = entry;
      return;
    }
    Reader other{epochs_[cell.read.epoch].actor, cell.read}, mine{now_.actor, entry};
    cell.more = take_readers(mine.actor < other.actor ? Readers{mine, other} : Readers{other, mine});
    cell.read = {};
    return;
  }
  Readers &readers = readers_[cell.more];
  auto found = std::lower_bound(readers.begin(), readers.end(), now_.actor,
                                [](const Reader &reader, u32 actor) { return reader.actor < actor; });
  if (found != readers.end() && found->actor == now_.actor) found->entry = entry;
  else readers.insert(found, {now_.actor, entry});
}

void Kernel::drop_reads(Cell &cell) {
  cell.read = {};
  if (cell.more == NONE) return;
  free_readers_.push_back(cell.more);
  Readers().swap(readers_[cell.more]);
  cell.more = NONE;
}

bool Kernel::known_to_host(const Entry &entry) const {
  const Epoch &epoch = epochs_[entry.epoch];
  return epoch.clock <= clocks_.known(0).of(epoch.actor);
}

// Forget what every actor there is, or can still be, already knows.
void Kernel::drop_known(Cell &cell) {
  if (!closed_) return;
  if (cell.write.epoch != NONE && known_to_host(cell.write)) cell.write = {};
  if (cell.more == NONE) {
    if (cell.read.epoch != NONE && known_to_host(cell.read)) cell.read = {};
    return;
  }
  Readers &readers = readers_[cell.more];
  readers.erase(std::remove_if(readers.begin(), readers.end(), [this](const Reader &reader) { return known_to_host(reader.entry); }),
                readers.end());
  if (readers.size() > 1) return;
  Entry left = readers.empty() ? Entry{} : readers.front().entry;
  drop_reads(cell);
  cell.read = left;
}

bool Kernel::same(const Entry &a, const Entry &b) const {
  if (a.epoch == NONE || b.epoch == NONE) return a.epoch == b.epoch;
  if (a.number != b.number) return false;
  if (a.epoch == b.epoch) return true;
  const Epoch &x = epochs_[a.epoch], &y = epochs_[b.epoch];
  return x.actor == y.actor && x.clock == y.clock && x.row == y.row;
}

bool Kernel::same(const Cell &left, const Cell &right) const {
  if (left.hi != right.lo || left.home != right.home || left.atom != right.atom) return false;
  if (!same(left.write, right.write) || !same(left.read, right.read)) return false;
  if (left.more == NONE || right.more == NONE) return left.more == right.more;
  const Readers &a = readers_[left.more], &b = readers_[right.more];
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [this](const Reader &x, const Reader &y) { return x.actor == y.actor && same(x.entry, y.entry); });
}

// Join neighbours that remember the same.
void Kernel::merge(std::vector<Cell> &cells) {
  size_t kept = 0;
  for (size_t k = 1; k < cells.size(); k++) {
    if (same(cells[kept], cells[k])) {
      cells[kept].hi = cells[k].hi;
      drop_reads(cells[k]);
    } else {
      cells[++kept] = cells[k];
    }
  }
  if (!cells.empty()) cells.resize(kept + 1);
}

// --- forgetting

u32 Kernel::space_at(i64 number) {
  u32 place = space_places_.place(number);
  if (place >= spaces_.size()) {
    spaces_.resize(place + size_t{1});
    space_numbers_.resize(place + size_t{1});
  }
  space_numbers_[place] = number;
  return place;
}

void Kernel::end_space(i64 number) {
  u32 place = space_places_.find(number);
  if (place == NONE) return;
  Space &space = spaces_[place];
  cells_ -= space.size();
  space.each([this](Cell &cell) { drop_reads(cell); });
  space.clear(leaves_);
  ended_.push_back(number);  // footprints still name its place
}

void Kernel::forget_footprints() {
  footprints_.clear();
  std::vector<Resident>().swap(residents_);
  for (Space &space : spaces_) space.each([](Cell &cell) { cell.home = NONE; });  // no footprint speaks for it any more
  for (i64 number : ended_) {
    u32 place = space_places_.find(number);
    if (place != NONE && spaces_[place].size() == 0) space_places_.erase(number);
  }
  ended_.clear();
}

void Kernel::remember() {
  forget();
  std::vector<bool> seen(epochs_.size());
  rows.clear();
  each_entry([&](Entry &entry) {
    if (seen[entry.epoch]) return;
    seen[entry.epoch] = true;
    rows.push_back(epochs_[entry.epoch].row);
  });
}

// Sweep all cells, but only when their number doubled since the last sweep. Residents' cells stay.
void Kernel::forget() {
  if (!closed_ || cells_ < sweep_at_) return;
  for (Space &space : spaces_) {
    inside_.clear();
    space.each([this](Cell &cell) {
      if (cell.home == NONE) drop_known(cell);
      if (cell.write.epoch != NONE || read_at_all(cell) || cell.home != NONE) inside_.push_back(cell);
    });
    merge(inside_);
    if (inside_.size() == space.size()) continue;
    cells_ -= space.size() - inside_.size();
    space.rebuild(leaves_, inside_);
  }
  sweep_at_ = std::max(CELLS_BEFORE_FORGETTING, 2 * cells_);
}

template <class Each>
void Kernel::each_entry(Each each) {
  for (Space &space : spaces_) {
    space.each([&](Cell &cell) {
      if (cell.write.epoch != NONE) each(cell.write);
      if (cell.read.epoch != NONE) each(cell.read);
      if (cell.more != NONE)
        for (Reader &reader : readers_[cell.more]) each(reader.entry);
    });
  }
}

// Keep only the epochs that somebody names.
void Kernel::drop_epochs() {
  std::vector<u32> place(epochs_.size(), NONE);
  each_entry([&](Entry &entry) { place[entry.epoch] = 0; });
  for (Resident &resident : residents_) place[resident.epoch] = 0;
  u32 kept = 0;
  for (size_t k = 0; k < epochs_.size(); k++) {
    if (place[k] == NONE) continue;
    epochs_[kept] = epochs_[k];
    place[k] = kept++;
  }
  epochs_.resize(kept);
  each_entry([&](Entry &entry) { entry.epoch = place[entry.epoch]; });
  for (Resident &resident : residents_) resident.epoch = place[resident.epoch];
  epochs_at_most_ = EPOCHS_BEFORE_DROPPING + 2 * size_t{kept} + cells_ / 4;
}

}  // namespace hb
