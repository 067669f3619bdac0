// Agreement of processes on a collective: statements are gathered, so that all come to one verdict.
#include "Agreement.h"

#include <algorithm>
#include <cstring>

using namespace kiln::collectives;

namespace {
/// A process's word of a call.
struct Statement {
  int64_t program, number, kind, type, reduction, root, ranks, isStatic, input, result;
};
} // namespace

static Failure disagree(const Statement &first, const Statement &other, int rank) {
  auto differ = [&](int64_t a, int64_t b, const char *what) {
    return Failure{KILN_SHAPE_MISMATCH, "process 0 has " + std::to_string(a) + " " + what +
                                            ", process " + std::to_string(rank) + " has " +
                                            std::to_string(b) + " " + what};
  };
  if (first.program != other.program || first.number != other.number || first.kind != other.kind ||
      first.type != other.type || first.reduction != other.reduction || first.root != other.root ||
      first.ranks != other.ranks || first.isStatic != other.isStatic)
    return {KILN_INVALID_ARGUMENT, "processes 0 and " + std::to_string(rank) +
                                       " are at different collectives: they run other programs, "
                                       "or one of them has failed before"};
  return first.input != other.input ? differ(first.input, other.input, "elements")
                                    : differ(first.result, other.result, "elements of the result");
}

/// Parts of an exchange are compared pair by pair.
static void compareParts(const uint64_t *lengths, size_t count) {
  for (size_t from = 0; from < count; ++from)
    for (size_t to = 0; to < count; ++to)
      if (uint64_t sent = lengths[from * 2 * count + to],
          taken = lengths[to * 2 * count + count + from];
          sent != taken)
        throw Failure{KILN_SHAPE_MISMATCH, "process " + std::to_string(from) + " sends " +
                                               std::to_string(sent) + " elements to process " +
                                               std::to_string(to) + ", which expects " +
                                               std::to_string(taken)};
}

static size_t countParts(const Call &call) {
  return call.kind == Kind::AllToAll ? 2 * static_cast<size_t>(call.ranks) : 0;
}

size_t kiln::collectives::getAgreementBytes(const Call &call) {
  return call.ranks * (sizeof(Statement) + countParts(call) * sizeof(uint64_t));
}

void kiln::collectives::agree(const Call &call, const Sizes &sizes, int rank, char *data,
                              const Gather &gather) {
  size_t parts = countParts(call), ranks = call.ranks;
  Statement own = {static_cast<int64_t>(call.program),
                   call.number,
                   static_cast<int64_t>(call.kind),
                   int64_t(256) * call.type.code + call.type.bits,
                   static_cast<int64_t>(call.reduction),
                   call.root,
                   call.ranks,
                   call.isStatic,
                   parts ? 0 : static_cast<int64_t>(sizes.input),
                   parts ? 0 : static_cast<int64_t>(sizes.result)};
  auto *statements = reinterpret_cast<Statement *>(data);
  statements[rank] = own;
  gather(data, sizeof own);
  for (size_t i = 1; i < ranks; ++i)
    if (memcmp(&statements[0], &statements[i], sizeof own) != 0)
      throw disagree(statements[0], statements[i], static_cast<int>(i));
  if (!parts)
    return;
  auto *lengths = reinterpret_cast<uint64_t *>(statements + ranks);
  std::copy(sizes.send.begin(), sizes.send.end(), lengths + rank * parts);
  std::copy(sizes.receive.begin(), sizes.receive.end(), lengths + rank * parts + ranks);
  gather(reinterpret_cast<char *>(lengths), parts * sizeof(uint64_t));
  compareParts(lengths, ranks);
}
