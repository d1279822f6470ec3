// The kernel: vector clocks and shadow memory over a flat program. The compiled twin of hbtrace/replay/kernel.py, step
// for step: the same hits in the same order, the same counts, so that a budget ends a trace at the same place.
#pragma once
#include "clocks.hpp"
#include "footprints.hpp"
#include "program.hpp"

// Sweeps that nobody sees the effect of; tests bring their limits down.
#ifndef HB_EPOCHS_BEFORE_DROPPING
#define HB_EPOCHS_BEFORE_DROPPING 8192
#endif
#ifndef HB_MET_BEFORE_JOINING
#define HB_MET_BEFORE_JOINING 65536
#endif

namespace hb {

class Kernel {
 public:
  // closed: no actor can still appear that does not know all that the host knows.
  explicit Kernel(bool closed) : closed_(closed) {}
  Kernel(const Kernel &) = delete;
  Kernel &operator=(const Kernel &) = delete;

  // Replay one chunk; its hits are then in `hits`. Beyond so many visits or races it ends, as the counts tell. Then,
  // and where it throws BadProgram or bad_alloc, the kernel is of no more use.
  void run(const Program &program, u64 visits, u64 races);

  // Footprints for the steps to come; `forget`: the numbers of those before are void.
  void define(const Program &program);

  // Steps of five integers, of footprints that are defined. Adds to `hits`.
  void step(const i64 *code, i64 steps);

  // The rows whose accesses can still be met, into `rows`, some of them more than once. Forgets what cannot.
  void remember();

  std::vector<i64> hits;  // HB_HIT integers each
  std::vector<i64> rows;

  u64 visited() const { return visited_; }
  u64 cells() const { return cells_; }
  u64 known() const { return clocks_.entries(); }

 private:
  // A step's accesses: whose, when. Cells name it by its place; a resident moves its epoch on instead of visiting cells.
  struct Epoch {
    i64 clock, row;
    u32 actor;
  };
  struct Reader {
    u32 actor;
    Entry entry;
  };
  using Readers = std::vector<Reader>;  // by actor

  // A race as it is met, before its fragments are joined.
  struct Met {
    i32 number;
    u32 earlier_number;
    i32 kind;
    u32 earlier_actor;
    i64 earlier_row, earlier_clock, lo, hi;
    u64 bytes;
    u32 space;
    bool operator<(const Met &other) const {
      return std::tie(number, earlier_row, earlier_number, kind) <
             std::tie(other.number, other.earlier_row, other.earlier_number, other.kind);
    }
  };

  // Who accesses, while a step is replayed.
  struct Access {
    u32 actor, epoch;
    i64 clock, row;
    const Clock *known;
  };

  struct Enough {};  // more was to be done than was allowed

  void count(u64 visits);
  size_t races_left() const { return most_ - hits.size() / HITS_OF_ONE; }
  void access(u32 actor, i64 footprint, i64 row);
  void visit_small(const Footprint &print);
  bool plain(const Atom &atom, Cell *cell);
  void visit_resident(Footprint &print);
  u32 resident_of(Footprint &print);
  void visit(const Atom &atom, Cell *cell, u32 home, u32 index);  // cell: what `find` finds
  void visit_many(const Atom &atom, u32 home, u32 index);
  void keep_write(const Atom &atom, bool raced, u32 home, u32 index);
  void keep_read(const Atom &atom, bool raced, u32 home, u32 index);
  void unremembered(Atom &atom);
  void settle(Cell &cell, bool raced, u32 home, u32 index);
  void mark(const Cell &cell, u32 home);
  Cell *find(Atom &atom);
  void cut_out(const Atom &atom);
  void replace(const Atom &atom);

  bool raced_by(const Entry &entry) const;
  bool check(const Atom &atom, i64 lo, i64 hi, const Cell &cell);
  void meet(i32 number, const Entry &earlier, i32 kind, const Atom &atom, i64 lo, i64 hi);
  void join_met();
  void tell();

  bool read_at_all(const Cell &cell) const { return cell.read.epoch != NONE || cell.more != NONE; }
  void add_read(Cell &cell, const Entry &entry);
  void drop_reads(Cell &cell);
  void drop_known(Cell &cell);
  bool known_to_host(const Entry &entry) const;
  u32 take_readers(Readers readers);
  Cell copy_of(const Cell &cell);
  bool same(const Entry &a, const Entry &b) const;
  bool same(const Cell &left, const Cell &right) const;
  void merge(std::vector<Cell> &cells);

  void forget();
  void forget_footprints();
  template <class Each>
  void each_entry(Each each);
  void drop_epochs();
  u32 space_at(i64 number);
  void end_space(i64 number);

  const bool closed_;
  Clocks clocks_;
  Footprints footprints_;
  std::vector<Epoch> epochs_;
  size_t epochs_at_most_ = EPOCHS_BEFORE_DROPPING;
  std::vector<Resident> residents_;

  Leaves leaves_;
  Numbers space_places_;
  std::vector<Space> spaces_;
  std::vector<i64> space_numbers_, ended_;
  std::vector<Readers> readers_;
  std::vector<u32> free_readers_;
  u64 cells_ = 0, sweep_at_ = CELLS_BEFORE_FORGETTING, visited_ = 0;
  u64 end_ = 0, most_ = 0;  // of visits, and of the races of this run

  // Of the step being replayed.
  Access now_{};
  std::vector<Met> met_;
  size_t join_met_at_ = MET_BEFORE_JOINING;
  std::vector<u32> others_;
  std::vector<Cell> inside_, fresh_;
  Place place_{};       // of the cells cut out,
  size_t gone_ = 0;     // so many,
  Cell left_{}, right_{};  // and what of them lies over the atom's edges

  static constexpr size_t HITS_OF_ONE = 14;  // HB_HIT
  static constexpr u32 RESIDENT_ATOMS = 16;
  static constexpr u64 CELLS_BEFORE_FORGETTING = 4096;
  static constexpr size_t EPOCHS_BEFORE_DROPPING = HB_EPOCHS_BEFORE_DROPPING;
  static constexpr size_t MET_BEFORE_JOINING = HB_MET_BEFORE_JOINING;
};

}  // namespace hb
