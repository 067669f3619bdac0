// einsum: operands are multiplied from left to right, each product one kernel.contract, or a map
// where it sums nothing.
#include "kiln/Lowering/Lowering.h"
#include "kiln/Lowering/Promotion.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

namespace {
/// A tensor with a letter for each of its dims, no letter twice. The dims of an ellipsis have
/// letters as well: \1 for the last of them, \2 for the one before, …
struct Term {
  Value tensor;
  std::string letters;

  bool has(char letter) const { return StringRef(letters).contains(letter); }
};

struct Equation {
  SmallVector<Term> terms;
  std::string output;
};
} // namespace

/// The letters of a subscript for a tensor of `rank` dims; none for an output. Nullopt if it is
/// malformed or does not fit.
static std::optional<std::string> parseSubscript(StringRef text, std::optional<size_t> rank,
                                                 size_t &ellipsisRank) {
  size_t dots = text.find("...");
  auto isLetters = [](StringRef part) { return llvm::all_of(part, llvm::isAlpha); };
  if (dots == StringRef::npos) {
    if (!isLetters(text) || (rank && text.size() != *rank))
      return std::nullopt;
    return text.str();
  }
  StringRef before = text.take_front(dots), after = text.drop_front(dots + 3);
  if (!isLetters(before) || !isLetters(after))
    return std::nullopt;
  size_t hidden = ellipsisRank;
  if (rank) {
    if (*rank < before.size() + after.size() || *rank - before.size() - after.size() > 31)
      return std::nullopt;
    hidden = *rank - before.size() - after.size();
    ellipsisRank = std::max(ellipsisRank, hidden);
  }
  std::string letters = before.str();
  for (size_t i = hidden; i > 0; --i)
    letters += static_cast<char>(i);
  return letters + after.str();
}

static std::optional<Equation> parse(StringRef equation, ArrayRef<Value> operands) {
  std::string text = equation.str();
  llvm::erase(text, ' ');
  auto [inputs, output] = StringRef(text).split("->");
  SmallVector<StringRef> subscripts;
  inputs.split(subscripts, ',');
  if (subscripts.size() != operands.size())
    return std::nullopt;
  Equation result;
  size_t ellipsisRank = 0;
  std::string all;
  for (auto [subscript, operand] : llvm::zip_equal(subscripts, operands)) {
    auto letters = parseSubscript(subscript, rankOf(operand), ellipsisRank);
    if (!letters)
      return std::nullopt;
    result.terms.push_back({operand, *letters});
    all += *letters;
  }
  if (StringRef(text).contains("->")) {
    auto letters = parseSubscript(output, std::nullopt, ellipsisRank);
    if (!letters)
      return std::nullopt;
    result.output = *letters;
  } else { // the ellipsis, then every letter that stands once, capitals first
    for (size_t i = ellipsisRank; i > 0; --i)
      result.output += static_cast<char>(i);
    for (char letter = 'A'; letter <= 'z'; ++letter)
      if (llvm::isAlpha(letter) && llvm::count(all, letter) == 1)
        result.output += letter;
  }
  for (char letter : result.output)
    if (!StringRef(all).contains(letter) || llvm::count(result.output, letter) != 1)
      return std::nullopt;
  return result;
}

namespace {
class Einsum {
public:
  Einsum(Call &call, Equation equation) : call(call), equation(std::move(equation)) {}
  LogicalResult lower();

private:
  Expr size(const Term &term, char letter) const {
    return shapeOf(term.tensor)[StringRef(term.letters).find(letter)];
  }
  void takeDiagonals(Term &term);
  /// The letters' sizes: dims of size 1 are broadcast, all others must be the same.
  void findSizes();
  /// Whether a letter is wanted after operand `position` was multiplied.
  bool isKept(char letter, size_t position) const;
  /// The term without the letters that are not in `kept`, which are summed over: integers in i64,
  /// but for letters of size 1 of one operand among several.
  Term sumOut(const Term &term, StringRef kept);
  Term multiply(const Term &a, const Term &b, StringRef kept);
  /// Reads a term where dim `i` of the body is letter `order[i]`.
  Element read(BodyBuilder &body, const Term &term, StringRef order);

  Call &call;
  Equation equation;
  std::array<std::optional<Expr>, 128> sizes;
};
} // namespace

void Einsum::takeDiagonals(Term &term) {
  std::string distinct;
  Exprs shape;
  for (auto [letter, size] : llvm::zip_equal(term.letters, shapeOf(term.tensor)))
    if (size_t at = StringRef(distinct).find(letter); at == StringRef::npos) {
      distinct += letter;
      shape.push_back(size);
    } else {
      call.requireSame(shape[at], size, "expected dims of one letter to have the same size");
    }
  if (distinct.size() == term.letters.size())
    return;
  term.tensor = call.kernels.view(term.tensor, shape, [&](ArrayRef<Expr> dims) {
    return llvm::map_to_vector(term.letters,
                               [&](char letter) { return dims[StringRef(distinct).find(letter)]; });
  });
  term.letters = distinct;
}

void Einsum::findSizes() {
  for (const Term &term : equation.terms)
    for (char letter : term.letters) {
      Expr here = size(term, letter);
      std::optional<Expr> &known = sizes[letter];
      if (!known || known->isConstant(1))
        known = here;
      else if (!here.isConstant(1))
        call.requireSame(*known, here, "expected dims of one letter to have the same size");
    }
}

bool Einsum::isKept(char letter, size_t position) const {
  return StringRef(equation.output).contains(letter) ||
         llvm::any_of(ArrayRef(equation.terms).drop_front(position + 1),
                      [&](const Term &term) { return term.has(letter); });
}

Element Einsum::read(BodyBuilder &body, const Term &term, StringRef order) {
  Exprs at = llvm::map_to_vector(term.letters, [&](char letter) {
    bool repeats = size(term, letter).isConstant(1) && !sizes[letter]->isConstant(1);
    return repeats ? Expr(0) : Expr::dim(order.find(letter));
  });
  return body.read(term.tensor, at);
}

Term Einsum::sumOut(const Term &term, StringRef kept) {
  std::string letters, order;
  Exprs shape, extents;
  for (char letter : term.letters) {
    bool stays = kept.contains(letter);
    (stays ? letters : order) += letter;
    (stays ? shape : extents).push_back(size(term, letter));
  }
  if (order.empty())
    return term;
  order = letters + order;
  Type type = elementType(term.tensor);
  bool isSum = equation.terms.size() == 1 ||
               !llvm::all_of(extents, [](Expr size) { return size.isConstant(1); });
  if (isInt(type) && isSum)
    type = IntegerType::get(type.getContext(), 64);
  Value sum = call.kernels.map(shape, type, [&](BodyBuilder &body) {
    return body.sum(extents, opmath(type), [&](BodyBuilder &inner) {
      Exprs at = llvm::map_to_vector(
          term.letters, [&](char letter) { return Expr::dim(StringRef(order).find(letter)); });
      return convert(inner.read(term.tensor, at), opmath(type));
    });
  });
  return {sum, letters};
}

Term Einsum::multiply(const Term &a, const Term &b, StringRef kept) {
  // Letters that only one operand has, and that are summed over, are summed first.
  auto shared = [&](const Term &term, const Term &other) {
    return sumOut(term, kept.str() + other.letters);
  };
  Term left = shared(a, b), right = shared(b, a);
  std::string batch, m, n, k;
  for (char letter : left.letters)
    (!right.has(letter) ? m : kept.contains(letter) ? batch : k) += letter;
  for (char letter : right.letters)
    if (!left.has(letter))
      n += letter;
  auto sizesOf = [&](StringRef letters) {
    return llvm::map_to_vector(letters, [&](char letter) { return *sizes[letter]; });
  };
  std::string letters = batch + m + n, order = letters + k;
  Type type = promoteTypes(elementType(left.tensor), elementType(right.tensor));
  if (k.empty()) {
    Value product = call.kernels.map(sizesOf(letters), type, [&](BodyBuilder &body) {
      return convert(read(body, left, order), opmath(type)) *
             convert(read(body, right, order), opmath(type));
    });
    return {product, letters};
  }
  Contraction c;
  c.batch = sizesOf(batch);
  c.m = sizesOf(m);
  c.n = sizesOf(n);
  c.k = sizesOf(k);
  bool isLast = letters.size() == equation.output.size() &&
                llvm::all_of(equation.output,
                             [&](char letter) { return StringRef(letters).contains(letter); });
  if (isLast && letters != equation.output) {
    for (char letter : equation.output)
      c.perm.push_back(static_cast<int64_t>(StringRef(letters).find(letter)));
    letters = equation.output;
  }
  auto lhs = [&](BodyBuilder &body) { return convert(read(body, left, order), type); };
  auto rhs = [&](BodyBuilder &body) { return convert(read(body, right, order), type); };
  c.lhs = lhs;
  c.rhs = rhs;
  return {call.kernels.contract(c, type), letters};
}

LogicalResult Einsum::lower() {
  for (Term &term : equation.terms)
    takeDiagonals(term);
  findSizes();
  Term result = equation.terms.front();
  for (size_t i = 1; i < equation.terms.size(); ++i) {
    std::string kept;
    for (char letter : result.letters + equation.terms[i].letters)
      if (isKept(letter, i))
        kept += letter;
    result = multiply(result, equation.terms[i], kept);
  }
  result = sumOut(result, equation.output);
  if (result.letters != equation.output) {
    SmallVector<int64_t> perm = llvm::map_to_vector(equation.output, [&](char letter) {
      return static_cast<int64_t>(StringRef(result.letters).find(letter));
    });
    result.tensor = call.kernels.permute(result.tensor, perm);
  }
  return call.set(result.tensor);
}

/// Operands are of one dtype, and of numbers.
static bool isSupported(ArrayRef<Value> operands) {
  Type type = elementType(operands.front());
  return !isBool(type) &&
         llvm::all_of(operands, [&](Value operand) { return elementType(operand) == type; });
}

static LogicalResult lowerEinsum(Call &call) {
  SmallVector<Value> operands = call.args.tensorList(1);
  if (operands.empty())
    return call.refuse("no operands");
  if (!isSupported(operands))
    return call.refuse("these dtypes");
  std::optional<Equation> equation = parse(call.args.string(0), operands);
  if (!equation)
    return call.refuse("an equation that does not fit the operands");
  return Einsum(call, std::move(*equation)).lower();
}

/// The product that PyTorch makes of a bilinear layer: three operands, each without the result's dims that its
/// `expand` names, are multiplied, and summed over dims.
static LogicalResult lowerTrilinear(Call &call) {
  constexpr size_t mostDims = 26;
  SmallVector<Value> operands = {call.tensor(0), call.tensor(1), call.tensor(2)};
  SmallVector<int64_t> summed = call.args.intList("sumdim");
  size_t rank = rankOf(operands[0]) + call.args.intList("expand1").size();
  if (!isSupported(operands) || rank > mostDims)
    return call.refuse("these dtypes or ranks");
  auto lettersWithout = [&](ArrayRef<int64_t> dims) {
    std::string letters;
    for (size_t dim = 0; dim < rank; ++dim)
      if (!llvm::is_contained(dims, static_cast<int64_t>(dim)))
        letters += static_cast<char>('a' + dim);
    return letters;
  };
  Equation equation;
  equation.output = lettersWithout(summed);
  constexpr std::array<StringLiteral, 3> expands = {"expand1", "expand2", "expand3"};
  for (auto [operand, key] : llvm::zip_equal(operands, expands)) {
    equation.terms.push_back({operand, lettersWithout(call.args.intList(key))});
    if (equation.terms.back().letters.size() != static_cast<size_t>(rankOf(operand)))
      return call.refuse("dims that do not fit the operands");
  }
  if (equation.output.size() + summed.size() != rank)
    return call.refuse("dims that do not fit the operands");
  return Einsum(call, std::move(equation)).lower();
}

void lowering::registerEinsum(LoweringTable &table) {
  table.add("aten.einsum.default", lowerEinsum);
  table.add("aten._trilinear.default", lowerTrilinear);
}
