// One table of nodes for the life of the process. Sharded by hash, so that threads compiling
// different kernels rarely meet; nodes are never freed, so that a pointer is an identity for good.
#include "Node.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/Support/Allocator.h"
#include <array>
#include <mutex>

using namespace kiln::sym;
using namespace kiln::sym::detail;

namespace {

struct Key {
  Kind kind;
  int64_t value;
  llvm::StringRef name;
  llvm::ArrayRef<Expr> operands;
  uint64_t hash;
};

struct NodeInfo {
  static const Node *getEmptyKey() { return llvm::DenseMapInfo<const Node *>::getEmptyKey(); }
  static const Node *getTombstoneKey() {
    return llvm::DenseMapInfo<const Node *>::getTombstoneKey();
  }
  static unsigned getHashValue(const Node *node) { return static_cast<unsigned>(node->hash); }
  static unsigned getHashValue(const Key &key) { return static_cast<unsigned>(key.hash); }
  static bool isEqual(const Node *a, const Node *b) { return a == b; }
  static bool isEqual(const Key &key, const Node *node) {
    return node != getEmptyKey() && node != getTombstoneKey() && key.hash == node->hash &&
           key.kind == node->kind && key.value == node->value && key.name == node->name &&
           key.operands == node->operands;
  }
};

struct Shard {
  std::mutex mutex;
  llvm::DenseSet<const Node *, NodeInfo> nodes;
  llvm::BumpPtrAllocator memory;
};

constexpr unsigned numShards = 32;

Shard &shardFor(uint64_t hash) {
  static auto &shards = *new std::array<Shard, numShards>; // outlives every static destructor
  return shards[(hash >> 40) % numShards];
}

// Small constants are the most common expressions and need no lookup.
constexpr int64_t smallMin = -64, smallMax = 1024;
constexpr auto smallConstants = [] {
  std::array<Node, smallMax - smallMin + 1> nodes{};
  for (int64_t v = smallMin; v <= smallMax; ++v) {
    nodes[v - smallMin].kind = Kind::Constant;
    nodes[v - smallMin].value = v;
  }
  return nodes;
}();
constexpr Node invalidNode{};

uint64_t hashOf(Kind kind, int64_t value, llvm::StringRef name, llvm::ArrayRef<Expr> operands) {
  constexpr uint64_t odd = 0x9e3779b97f4a7c15; // 2^64 / golden ratio
  uint64_t hash = static_cast<uint64_t>(value) * odd + static_cast<uint64_t>(kind);
  auto mix = [&](uint64_t next) {
    hash = (hash ^ next) * odd;
    hash ^= hash >> 29;
  };
  if (!name.empty())
    mix(llvm::hash_value(name));
  for (Expr operand : operands)
    mix(reinterpret_cast<uintptr_t>(operand.opaque()));
  return hash;
}

} // namespace

Expr detail::intern(Kind kind, int64_t value, llvm::StringRef name, llvm::ArrayRef<Expr> operands,
                    const Node *monomial) {
  Node node;
  node.kind = kind;
  node.value = value;
  node.monomial = monomial;
  node.hasLeaves = kind == Kind::Symbol || kind == Kind::Dim;
  if (kind == Kind::Dim)
    node.numDims = static_cast<uint32_t>(value) + 1;
  for (Expr operand : operands) {
    const Node &below = Node::of(operand);
    if (below.kind == Kind::Invalid)
      return Expr::invalid();
    node.depth = std::max(node.depth, below.depth + 1);
    node.treeSize += below.treeSize; // each is at most maxTreeSize, and there are at most maxTerms
    node.numDims = std::max(node.numDims, below.numDims);
    node.hasLeaves |= below.hasLeaves;
  }
  if (node.depth > maxDepth || node.treeSize > maxTreeSize || operands.size() > maxTerms + 1)
    return Expr::invalid();
  node.hash = hashOf(kind, value, name, operands);

  Shard &shard = shardFor(node.hash);
  std::lock_guard<std::mutex> lock(shard.mutex);
  auto it = shard.nodes.find_as(Key{kind, value, name, operands, node.hash});
  if (it != shard.nodes.end())
    return Node::wrap(*it);
  node.operands = operands.copy(shard.memory);
  node.name = name.copy(shard.memory);
  const Node *kept = new (shard.memory.Allocate<Node>()) Node(node);
  shard.nodes.insert(kept);
  return Node::wrap(kept);
}

Expr::Expr() : node(&smallConstants[-smallMin]) {}

Expr::Expr(int64_t constant)
    : node(constant >= smallMin && constant <= smallMax
               ? &smallConstants[constant - smallMin]
               : intern(Kind::Constant, constant, {}, {}).node) {}

Expr Expr::invalid() { return Node::wrap(&invalidNode); }

Expr Expr::dim(unsigned index) {
  // One past the index must be representable.
  return index == UINT32_MAX ? invalid() : intern(Kind::Dim, index, {}, {});
}
