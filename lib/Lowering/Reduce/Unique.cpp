// Distinct elements or rows. They are put in order, the first of each run of equal ones is marked,
// and the marked ones are kept. Rows are sorted by one column after the other, the last one first,
// in a loop if there are many columns; a few rows of many elements by counting what stands before
// each, which is quadratic in their number. Runs of what is in order already need none.
#include "Core/Loop.h"
#include "Index/Repeat.h"
#include "Reduce/Order.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::lowering;

/// The most rows worth the quadratic form, and the most columns that are sorted by without a loop.
static constexpr int64_t maxRows = 4096, maxColumns = 16;

static bool isSortedByColumns(Expr columns) {
  return columns.isConstant() && *columns.constant() <= maxColumns;
}

namespace {

class Unique {
public:
  /// `table` is [rows, columns]. `isOrdered`: equal rows that are apart stay apart.
  Unique(Call &call, Value table, bool isOrdered)
      : call(call), kernels(call.kernels), table(table), type(elementType(table)),
        i64(kernels.b().getI64Type()), rows(shapeOf(table)[0]), columns(shapeOf(table)[1]) {
    if (!isOrdered)
      order();
    marks = kernels.map({rows}, kernels.b().getI1Type(), [&](BodyBuilder &body) {
      Element isLater = body.index(body.dim(0)) > body.constant(i64, 0);
      Element before = rowAt(body, Expr::max(body.dim(0) - 1, 0)), here = rowAt(body, body.dim(0));
      Element differs = body.any({columns}, [&](BodyBuilder &inner) {
        return read(inner, before, inner.dim(1)) != read(inner, here, inner.dim(1));
      });
      return ~isLater | differs;
    });
  }

  /// Number of the row that begins each run: a vector of `size`.
  Value firsts(Expr size) {
    return repeatElements(call, rows, size, [&](BodyBuilder &body, Expr element, Element inside) {
      return body.read(marks, Exprs{element}, inside, body.constant(marks1(), 0));
    });
  }

  /// The distinct rows.
  Value values(Value firsts) {
    return kernels.map({shapeOf(firsts)[0], columns}, type, [&](BodyBuilder &body) {
      Element first = body.read(firsts, Exprs{body.dim(0)});
      if (positions)
        first = body.read(positions, Indices{first});
      return read(body, first, body.dim(1));
    });
  }

  /// How often each of them occurs.
  Value counts(Value firsts) {
    Expr size = shapeOf(firsts)[0];
    return kernels.map({size}, i64, [&](BodyBuilder &body) {
      Element hasNext = body.inside({body.dim(0) + 1}, {size});
      Element end = body.read(firsts, Exprs{body.dim(0) + 1}, hasNext, body.index(rows));
      return end - body.read(firsts, Exprs{body.dim(0)});
    });
  }

  /// Which of them each row is.
  Value inverse() {
    using Elements = BodyBuilder::Elements;
    auto init = [&](BodyBuilder &body) { return Elements{body.constant(i64, -1)}; };
    auto body = [&](BodyBuilder &inner) {
      return Elements{convert(inner.read(marks, inner.ownDims()), i64)};
    };
    auto add = [](ArrayRef<Element> a, ArrayRef<Element> b) { return Elements{a[0] + b[0]}; };
    Value runs = kernels.scan({{rows}, 0, init, body, add}, i64).front();
    if (!places)
      return runs;
    return kernels.map({rows}, i64, [&](BodyBuilder &body) {
      return body.read(runs, Indices{body.read(places, Exprs{body.dim(0)})});
    });
  }

private:
  Type marks1() { return kernels.b().getI1Type(); }

  Element read(BodyBuilder &body, Element row, Expr column) {
    return body.read(table, Indices{row, column});
  }

  /// The number of the row that stands at `place` in order.
  Element rowAt(BodyBuilder &body, Expr place) {
    return positions ? body.read(positions, Exprs{place}) : body.index(place);
  }

  /// The place of each row in order, and the row at each place. NaN is greatest; equal rows keep
  /// their order.
  void order() {
    if (isSortedByColumns(columns))
      orderByColumns();
    else if (kernels.known().isLessOrEqual(rows, maxRows))
      orderByCounting();
    else
      orderInLoop();
  }

  void orderInLoop() {
    Value numbers =
        kernels.map({rows}, i64, [&](BodyBuilder &body) { return body.index(body.dim(0)); });
    positions = loop(kernels, columns, {numbers}, {table}, [&](const LoopStep &step) {
                  Value before = step.carried[0], cells = step.invariants[0];
                  Value next = step.kernels.sort({rows}, [&](BodyBuilder &body) {
                    Element last = body.index(columns - 1);
                    Element column = last - body.read(step.number, Exprs());
                    Element row = body.read(before, Exprs{body.dim(0)});
                    return orderedBits(body.read(cells, Indices{row, column}));
                  });
                  return SmallVector<Value>{step.kernels.map({rows}, i64, [&](BodyBuilder &body) {
                    return body.read(before, Indices{body.read(next, Exprs{body.dim(0)})});
                  })};
                }).front();
    invert();
  }

  void orderByColumns() {
    for (int64_t column = *columns.constant(); column-- > 0;) {
      Value before = positions;
      Value next = kernels.sort({rows}, [&](BodyBuilder &body) {
        Element row = before ? body.read(before, Exprs{body.dim(0)}) : body.index(body.dim(0));
        return orderedBits(read(body, row, column));
      });
      positions = !before ? next : kernels.map({rows}, i64, [&](BodyBuilder &body) {
        return body.read(before, Indices{body.read(next, Exprs{body.dim(0)})});
      });
    }
    if (positions) // rows of no columns are where they are
      invert();
  }

  /// From the row at each place to the place of each row.
  void invert() {
    ScatterSpec spec;
    spec.targets = spec.places = {rows};
    auto init = [&](BodyBuilder &body) { return body.constant(i64, 0); };
    auto update = [&](BodyBuilder &body) {
      Element row = body.read(positions, Exprs{body.dim(1)});
      return ScatterSpec::Write{{row}, {}, body.index(body.dim(1))};
    };
    spec.init = init;
    spec.update = update;
    places = kernels.scatter(spec, i64);
  }

  void orderByCounting() {
    places = kernels.map({rows}, i64, [&](BodyBuilder &body) {
      return body.sum({rows}, i64, [&](BodyBuilder &inner) {
        return convert(isBefore(inner, inner.dim(1), inner.dim(0)), i64);
      });
    });
    positions = kernels.map({rows}, i64, [&](BodyBuilder &body) {
      Element wanted = body.index(body.dim(0));
      return body.sum({rows}, i64, [&](BodyBuilder &inner) {
        Element isHere = inner.read(places, Exprs{inner.dim(1)}) == wanted;
        return select(isHere, inner.index(inner.dim(1)), inner.constant(i64, 0));
      });
    });
  }

  Element isBefore(BodyBuilder &body, Expr a, Expr b) {
    Type i64 = this->i64;
    // 2 * column, and 1 more where b is the lesser, of the first column in which they differ.
    Element same = body.constant(i64, INT64_MAX);
    auto compare = [&](BodyBuilder &inner, Expr column) {
      Element x = inner.read(table, Exprs{a, column}), y = inner.read(table, Exprs{b, column});
      Element isLess = x < y, differs = x != y;
      if (isFloat(type)) {
        isLess = isLess | (isNan(y) & ~isNan(x));
        differs = differs & ~(isNan(x) & isNan(y));
      }
      Element key = inner.index(2 * column) + convert(~isLess, i64);
      return select(differs, key, inner.constant(i64, INT64_MAX));
    };
    Element key = body.min({columns}, i64, [&](BodyBuilder &inner) {
      return compare(inner, inner.dim(inner.numDims() - 1));
    });
    Element isEarlier = body.index(a) < body.index(b);
    Element isLess = (key & key.constant(1)) == key.constant(0);
    return select(key == same, isEarlier, isLess);
  }

  Call &call;
  KernelBuilder &kernels;
  Value table;
  Type type, i64;
  Expr rows, columns;
  Value marks;
  Value places, positions; // null: rows are where they are
};

} // namespace

/// `table` seen as rows along `dim`, or of one element each.
static LogicalResult unique(Call &call, std::optional<int64_t> dim, bool isOrdered,
                            bool wantsInverse, bool wantsCounts) {
  Value self = call.tensor(0), table;
  KernelBuilder &kernels = call.kernels;
  Exprs shape = shapeOf(self), rest;
  SmallVector<int64_t> perm;
  if (isComplex(elementType(self)))
    return call.refuse("an order of complex numbers");
  if (dim) {
    if (shape.empty())
      return call.refuse("a 0-d tensor has no dim");
    perm.push_back(*dim);
    for (int64_t i = 0, e = shape.size(); i < e; ++i)
      if (i != *dim) {
        perm.push_back(i);
        rest.push_back(shape[i]);
      }
    table = kernels.reshape(kernels.permute(self, perm), {shape[*dim], sym::product(rest)});
  } else {
    table = kernels.reshape(self, {sym::product(shape), 1});
  }
  Exprs declared = call.resultShape();
  if (declared.size() != (dim ? shape.size() : 1))
    return call.refuse("computes another shape than the program declares");
  Unique unique(call, table, isOrdered);
  Value firsts = unique.firsts(declared[dim.value_or(0)]);
  SmallVector<Value> results(call.numResults());
  Value values = unique.values(firsts);
  Expr size = shapeOf(firsts)[0];
  if (dim) {
    Exprs moved{size};
    llvm::append_range(moved, rest);
    SmallVector<int64_t> back(perm.size());
    for (auto [to, from] : llvm::enumerate(perm))
      back[from] = to;
    results[0] = kernels.permute(kernels.reshape(values, moved), back);
  } else {
    results[0] = kernels.reshape(values, {size});
  }
  for (unsigned i = 1; i < call.numResults(); ++i) {
    if (call.isUnused(i))
      continue;
    bool isInverse = i == 1;
    if (dim || (isInverse ? wantsInverse : wantsCounts)) // ATen gives both of rows
      results[i] = isInverse ? unique.inverse() : unique.counts(firsts);
    else
      results[i] = kernels.full(call.resultShape(i), call.resultType(i), 0);
    if (isInverse && wantsInverse && !dim)
      results[i] = kernels.reshape(results[i], shape);
  }
  return call.set(results);
}

static bool flag(Call &call, const char *name) {
  return call.args.has(name) && call.args.boolean(name);
}

void lowering::registerUnique(LoweringTable &table) {
  // `sorted` means nothing: without a dim ATen always sorts on CPUs, and with one as well.
  auto sorted = [](Call &call) {
    std::optional<int64_t> dim;
    if (call.args.has("dim"))
      dim = call.dim("dim", rankOf(call.tensor(0)));
    return unique(call, dim, /*isOrdered=*/false, flag(call, "return_inverse"),
                  flag(call, "return_counts"));
  };
  auto consecutive = [](Call &call) {
    std::optional<int64_t> dim;
    if (!call.args.isNone("dim"))
      dim = call.dim("dim", rankOf(call.tensor(0)));
    return unique(call, dim, /*isOrdered=*/true, flag(call, "return_inverse"),
                  flag(call, "return_counts"));
  };
  table.add({"aten._unique.default", "aten._unique2.default", "aten.unique_dim.default"}, sorted);
  table.add({"aten.unique_consecutive.default", "aten.unique_dim_consecutive.default"},
            consecutive);
}
