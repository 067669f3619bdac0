// The kernel dialect: what is computed, as few structured ops whose operands are read through
// symbolic index maps.
#ifndef KILN_KERNEL_OPS_TD
#define KILN_KERNEL_OPS_TD

include "kiln/Dialect/Kernel/CollectiveOps.td"
include "kiln/Dialect/Kernel/ExternOps.td"
include "kiln/Dialect/Kernel/GraphCallOps.td"
include "kiln/Dialect/Kernel/KernelDialect.td"
include "kiln/Dialect/Kernel/TritonOps.td"

//===-- Inside regions --------------------------------------------------------------------------===//

def Kernel_ReadOp : Kernel_Op<"read",
    [Pure, AttrSizedOperandSegments, Kernel_IndexedOpInterface]> {
  let summary = "one element of a tensor";
  let description = [{
    ```mlir
    %x = kernel.read %t (d0, d1) -> (d1, d0) : tensor<8x4xf32> -> f32
    %row = kernel.read %table (d0, d1, d2) -> (d2, d1) values(%i) : tensor<100x8xf32> -> f32
    %p = kernel.read %t (d0) -> (d0 - 1) if %inside else(%zero : f32) : tensor<8xf32> -> f32
    ```
    The map takes the enclosing dims, then `values` (i64). With `mask`, memory is not touched where
    the mask is false and the result is `other`. An index that comes from `values` is data: generated
    code keeps it inside the tensor and fails the run when it was outside. Every other index is
    inside by construction.

    Constraints:
    - (C1) the map has as many dims as there are enclosing dims and `values`
    - (C2) the map has as many results as the tensor's rank
    - (C3) `mask` and `other` come together; `other` has the result's type
    - (C4) the result is the tensor's element type, signless
  }];
  let arguments = (ins AnyRankedTensor:$tensor, Sym_MapAttr:$map, Variadic<I64>:$values,
                       Optional<I1>:$mask, Optional<AnyType>:$other);
  let results = (outs AnyType:$result);
  let assemblyFormat = [{
    $tensor custom<IndexMap>($map) (`values` `(` $values^ `)`)? (`if` $mask^ `else` `(` $other `:` type($other) `)`)?
    attr-dict `:` type($tensor) `->` type($result)
  }];
  let hasVerifier = 1;
  let builders = [
    OpBuilder<(ins "::mlir::Value":$tensor, "const ::kiln::sym::IndexMap &":$map,
      CArg<"::mlir::ValueRange", "{}">:$values, CArg<"::mlir::Value", "{}">:$mask,
      CArg<"::mlir::Value", "{}">:$other)>];
}

def Kernel_IndexOp : Kernel_Op<"index",
    [Pure, Kernel_IndexedOpInterface]> {
  let summary = "the value of an index expression, as i64";
  let description = [{
    `%i = kernel.index (d0, d1) -> (2*d0 + 1)`. Constraint (C1): one result, dims as `kernel.read`.
  }];
  let arguments = (ins Sym_MapAttr:$map, Variadic<I64>:$values);
  let results = (outs I64:$result);
  let assemblyFormat = "custom<IndexMap>($map) (`values` `(` $values^ `)`)? attr-dict";
  let hasVerifier = 1;
}

def Kernel_InsideOp : Kernel_Op<"inside",
    [Pure, Kernel_IndexedOpInterface]> {
  let summary = "whether every expression lies in its bounds";
  let description = [{
    `%m = kernel.inside (d0, d1) -> (d0 - 1, d1) bounds [8, 4]`: 0 <= d0 - 1 < 8 and 0 <= d1 < 4.
    Constraint (C1): as many bounds as map results; dims as `kernel.read`.
  }];
  let arguments = (ins Sym_MapAttr:$map, Sym_ShapeAttr:$bounds, Variadic<I64>:$values);
  let results = (outs I1:$result);
  let assemblyFormat =
      "custom<IndexMap>($map) `bounds` custom<ExprList>($bounds) (`values` `(` $values^ `)`)? attr-dict";
  let hasVerifier = 1;
}

def Kernel_ExpectOp : Kernel_Op<"expect", [Pure, AllTypesMatch<["value", "result"]>]> {
  let summary = "a value of which something must hold";
  let description = [{
    `%d = kernel.expect %divisor if %ok, "integer division by zero (node 'div')" : i64`: `value`. Where
    `condition` is false for an element that is computed, the run fails with `message`. What nobody uses
    cannot fail. `code`, which `kernel-list-failures` sets, is what the kernel reports.
  }];
  let arguments = (ins AnyType:$value, I1:$condition, StrAttr:$message, OptionalAttr<I32Attr>:$code);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$value `if` $condition `,` $message (`code` $code^)? attr-dict `:` type($value)";
  let hasFolder = 1;
}

def Kernel_ReduceOp : Kernel_Op<"reduce", [RecursiveMemoryEffects]> {
  let summary = "a value reduced over further dims";
  let description = [{
    ```mlir
    %sum = kernel.reduce [768] init(%zero : f32) {
      %x = kernel.read %t (d0, d1) -> (d0, d1) : tensor<8x768xf32> -> f32
      kernel.yield %x : f32
    } combine {
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    } : f32
    ```
    The body's dims are the enclosing ones followed by `extents`. `combine` takes k accumulated values
    and k new ones; it is associative and commutative, and `init` is its identity, so that lanes,
    unrolled copies and blocks may be combined in any order. An arg-max reduces the pair (value,
    index); Welford's (count, mean, M2) is a reduction of three values.

    Constraints:
    - (C1) the body yields values of the result types
    - (C2) `combine` takes 2k arguments of the result types and yields k
    - (C3) `init` has the result types
  }];
  let arguments = (ins Sym_ShapeAttr:$extents, Variadic<AnyType>:$init);
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region SizedRegion<1>:$body, SizedRegion<1>:$combine);
  let assemblyFormat = [{
    custom<ExprList>($extents) `init` `(` $init `:` type($init) `)` attr-dict-with-keyword $body
    `combine` $combine `:` type($results)
  }];
  let hasVerifier = 1;
}

def Kernel_IterateOp : Kernel_Op<"iterate", [RecursiveMemoryEffects]> {
  let summary = "scalars computed step by step until they are good";
  let description = [{
    ```mlir
    %term, %sum = kernel.iterate at_most 2000 init(%one, %one : f64, f64) {
    ^bb0(%t: f64, %s: f64):
      %next = arith.mulf %t, %x : f64
      %more = arith.addf %s, %next : f64
      %again = arith.cmpf ogt, %next, %small : f64
      kernel.yield %again, %next, %more : i1, f64, f64
    } : f64, f64
    ```
    Each step takes the values of the one before and gives the next ones; the first value that it
    yields says whether there is another step. After `limit` steps there is none. Series, continued
    fractions and recurrences whose length depends on data are written with it; what depends on dims is
    a `kernel.reduce`.

    Constraints:
    - (C1) the body takes the result types and yields i1 and the result types
    - (C2) `init` has the result types
    - (C3) the body holds scalar ops alone: nothing that takes dims, no region
    - (C4) `limit` is positive
  }];
  let arguments = (ins I64Attr:$limit, Variadic<AnyType>:$init);
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `at_most` $limit `init` `(` $init `:` type($init) `)` attr-dict-with-keyword $body `:` type($results)
  }];
  let hasVerifier = 1;
}

def Kernel_YieldOp : Kernel_Op<"yield", [Pure, Terminator, ReturnLike,
    ParentOneOf<["MapOp", "ReduceOp", "IterateOp", "ContractOp", "WinogradOp", "AttentionOp", "ScanOp", "ScatterOp",
                 "SortOp", "MergeOp", "RepeatOp"]>]> {
  let summary = "ends a region with its values";
  let arguments = (ins Variadic<AnyType>:$operands);
  let assemblyFormat = "($operands^ `:` type($operands))? attr-dict";
}

//===-- Structured ops --------------------------------------------------------------------------===//

def Kernel_ConstantOp : Kernel_Op<"constant",
    [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a tensor known at compile time";
  let description = [{
    `name` is the qualified name of the parameter or buffer whose value it is, if any; a constant
    without one was computed. Large values are resources that stay in the mapped archive.

    What was computed from parameters or buffers says how, since those can be replaced in a compiled
    model:
    ```mlir
    %0 = kernel.constant "weight" dense_resource<weight> : tensor<4x8xf32>
    %1 = kernel.constant dense_resource<folded> from @fold_0 result 0 of (%0 : tensor<4x8xf32>) : tensor<8x4xf32>
    ```

    Constraints:
    - (C1) `kernel` comes with `output` and `sources` and without `name`
    - (C2) `kernel` is a `kernel.func` that takes the sources and whose result `output` has the
      constant's type
  }];
  let arguments = (ins ElementsAttr:$value, OptionalAttr<StrAttr>:$name,
                       OptionalAttr<FlatSymbolRefAttr>:$kernel, OptionalAttr<I64Attr>:$output,
                       Variadic<AnyRankedTensor>:$sources);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    ($name^)? attr-dict $value
    (`from` $kernel^ `result` $output `of` `(` $sources `:` type($sources) `)`)? `:` type($result)
  }];
  let builders = [OpBuilder<(ins "::mlir::Type":$type, "::mlir::ElementsAttr":$value,
    "::mlir::StringAttr":$name), [{
      build($_builder, $_state, type, value, name, {}, {}, ::mlir::ValueRange());
    }]>];
  let hasVerifier = 1;
}

def Kernel_MapOp : Kernel_Op<"map",
    [RecursiveMemoryEffects, DeclareOpInterfaceMethods<Kernel_StructuredOpInterface>]> {
  let summary = "every element of its results, in parallel";
  let description = [{
    ```mlir
    %y = kernel.map {
      %a = kernel.read %x (d0, d1) -> (d0, d1) : tensor<8x4xf32> -> f32
      %b = kernel.read %bias (d0, d1) -> (d1) : tensor<4xf32> -> f32
      %c = arith.addf %a, %b : f32
      kernel.yield %c : f32
    } : tensor<8x4xf32>
    ```
    All results have one shape: the dims d0, d1, … run over it, and element (d0, d1, …) of result i is
    the i-th yielded value.

    Constraints:
    - (C1) all results have the same shape
    - (C2) one yielded value for each result, of its element type (signless)
  }];
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "attr-dict-with-keyword $body `:` type($results)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The read that is the whole body, or null: this map is then a view of the read's tensor.
    ReadOp getView();
  }];
}

def Kernel_ContractOp : Kernel_Op<"contract",
    [RecursiveMemoryEffects, DeclareOpInterfaceMethods<Kernel_StructuredOpInterface, ["getResultDims", "getRegionDims", "isOperand"]>]> {
  let summary = "a sum of products";
  let description = [{
    ```mlir
    %c = kernel.contract batch [] m [128] n [3072] k [768] lhs {
      %a = kernel.read %x (d0, d1, d2) -> (d0, d2) : tensor<128x768xf32> -> f32
      kernel.yield %a : f32
    } rhs {
      %b = kernel.read %w (d0, d1, d2) -> (d1, d2) : tensor<3072x768xf32> -> f32
      kernel.yield %b : f32
    } epilogue {
    ^bb0(%sum: f32):
      kernel.yield %sum : f32
    } : tensor<128x3072xf32>
    ```
    result[batch, m, n] = epilogue(sum over k of lhs(batch, m, k) * rhs(batch, n, k)). Each group may
    have any number of dims; they are numbered in the order batch, m, n, k, and every region's maps
    take all of them. `lhs` must not use the n dims, `rhs` not the m dims, `epilogue` not the k dims.
    A convolution's lhs reads `x[…, oh*stride + kh*dilation - pad, …]` under a `kernel.inside` mask.
    The sum has the type of the epilogue's argument. `perm`, if given, says which of (batch…, m…, n…)
    each dim of the result is. Extents that differ only in order give the same value.

    `panel`, if given, says that the right operand has been packed (`cpu-pack-contracts`): `rhs` is
    one read of a tensor [batch…, N ceildiv panel, K, panel], where N and K are the products of the n
    and k extents, at (batch…, n floordiv panel, k, n mod panel). What is past N in the last panel is
    zero. In a depthwise convolution, which has one n, the last batch dim takes the place of the
    columns. Small integers are widened, and scaled by what it reads of further tensors of panels; an
    element may hold several steps of the sum then.

    `part`, if given, cuts the sums: the result has one more dim, the first, of size K ceildiv part, and
    element (p, …) is the epilogue of the sum over steps p*part to (p + 1)*part - 1 alone, counted over
    the k dims in order, of which the last part may have fewer.

    With `bytes`, an operand's element holds so many steps of the sum, the first in the lowest bits, and sums
    wrap around in i32. Four: the unsigned bytes of an i32 of `lhs`, and the signed bytes of an i32 of `rhs`.
    Two: the signed halves of an i32 of `lhs`, and the signed bytes of an i16 of `rhs`. With `narrow`, no byte of
    `lhs` is more than 128, so that the sum of two products fits in 16 bits.

    Constraints:
    - (C1) the result's shape is the (permuted) batch, m and n extents, after the number of parts if there is a `part`
    - (C2) lhs and rhs yield one value, without `bytes` of the same type
    - (C3) the epilogue takes one argument and yields one value of the result's element type
    - (C4) regions use only the dims they may
    - (C5) `perm` is a permutation
    - (C6) with `panel`, which is positive, `rhs` begins with a read, without mask or `values`, of a
      tensor that has three dims after the batch dims, the last of size `panel`
    - (C7) `part` is positive, and comes without `panel`
    - (C9) `bytes` is 2 or 4; with it, operands are of the types above, and the sum is i32; `narrow` comes with 4
  }];
  let arguments = (ins Sym_ShapeAttr:$batch, Sym_ShapeAttr:$m, Sym_ShapeAttr:$n, Sym_ShapeAttr:$k,
                       OptionalAttr<DenseI64ArrayAttr>:$perm, OptionalAttr<I64Attr>:$panel,
                       OptionalAttr<Sym_ExprAttr>:$part, OptionalAttr<I64Attr>:$bytes,
                       UnitAttr:$narrow);
  let results = (outs AnyRankedTensor:$result);
  let regions = (region SizedRegion<1>:$lhs, SizedRegion<1>:$rhs, SizedRegion<1>:$epilogue);
  let assemblyFormat = [{
    `batch` custom<ExprList>($batch) `m` custom<ExprList>($m) `n` custom<ExprList>($n)
    `k` custom<ExprList>($k) (`perm` $perm^)? (`panel` $panel^)?
    (`part` custom<Size>($part)^)? (`bytes` $bytes^ (`narrow` $narrow^)?)? attr-dict-with-keyword
    `lhs` $lhs `rhs` $rhs `epilogue` $epilogue `:` type($result)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    unsigned getNumBatch() { return getBatch().getSizes().size(); }
    unsigned getNumM() { return getM().getSizes().size(); }
    unsigned getNumN() { return getN().getSizes().size(); }
    unsigned getNumK() { return getK().getSizes().size(); }
    /// The size of the result's first dim; null if there is no `part`.
    std::optional<::kiln::sym::Expr> getNumParts();
  }];
}

def Kernel_WinogradOp : Kernel_Op<"winograd",
    [RecursiveMemoryEffects, DeclareOpInterfaceMethods<Kernel_StructuredOpInterface, ["getResultDims", "getRegionDims", "isOperand"]>]> {
  let summary = "a convolution with windows of 3 x 3 pixels that takes fewer multiplications";
  let description = [{
    ```mlir
    %y = kernel.winograd tile 4 panel 32 batch [8] pixels [56, 56] n 64 c 64 lhs {
      %x = kernel.read %image (d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d0, d4, d5, d6) : tensor<8x58x58x64xf32> -> f32
      kernel.yield %x : f32
    } rhs {
      %u = kernel.read %w (d0, d1, d2, d3, d4, d5, d6, d7, d8) -> (d3 floordiv 32, d6 + 384*d7 + 64*d8, d3 mod 32) : tensor<2x2304x32xf32> -> f32
      kernel.yield %u : f32
    } epilogue {
    ^bb0(%sum: f32):
      kernel.yield %sum : f32
    } : tensor<8x56x56x64xf32>
    ```
    The same as a `kernel.contract` that sums lhs(batch, y + i, x + j, c) * w(n, c, i, j) over i, j < 3 and c, but for rounding. A square
    of `tile` x `tile` pixels, Y, comes from one of tile + 2, D (Winograd, "Arithmetic Complexity of Computations", 1980; Lavin and Gray,
    "Fast Algorithms for Convolutional Neural Networks", CVPR 2016):

    Y = Aᵀ [sum over c of U(n, c) ⊙ (Bᵀ D(c) B)] A, where U(n, c) = G w(n, c) Gᵀ

    `rhs` gives U, packed by `cpu-winograd` as the right operand of a contract is: it is one read of a tensor
    [n ceildiv panel, (tile + 2)² * c, panel], zero past n. Sums are of f32, as all operands are.

    Dims are numbered batch…, y, x, n, then row and column of the image (pixels + 2), c, and row and column of U; every region's maps take
    all of them. `lhs` uses the batch, the image's and c, `rhs` n, c and U's, `epilogue` batch, y, x and n, which are the result's.

    Constraints:
    - (C1) the result's shape is the batch, the two pixels extents and n
    - (C2) `tile` is 2 or 4, `panel` positive, and there are two pixels extents
    - (C3) lhs, rhs and the epilogue's argument, of which there is one, are f32; the epilogue yields the result's element type
    - (C4) regions use only the dims they may
    - (C5) `rhs` begins with a read, without mask or `values`, of a tensor of the shape above
  }];
  let arguments = (ins I64Attr:$tile, I64Attr:$panel, Sym_ShapeAttr:$batch, Sym_ShapeAttr:$pixels,
                       Sym_ExprAttr:$n, Sym_ExprAttr:$c);
  let results = (outs AnyRankedTensor:$result);
  let regions = (region SizedRegion<1>:$lhs, SizedRegion<1>:$rhs, SizedRegion<1>:$epilogue);
  let assemblyFormat = [{
    `tile` $tile `panel` $panel `batch` custom<ExprList>($batch) `pixels` custom<ExprList>($pixels) `n` custom<Size>($n) `c` custom<Size>($c)
    attr-dict-with-keyword `lhs` $lhs `rhs` $rhs `epilogue` $epilogue `:` type($result)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    unsigned getNumBatch() { return getBatch().getSizes().size(); }
    /// Rows, and columns, of U and of the part of the image that a tile is computed from.
    int64_t getPoints() { return getTile() + 2; }
    /// The numbers of dims.
    unsigned yDim() { return getNumBatch(); }
    unsigned nDim() { return getNumBatch() + 2; }
    unsigned imageDim() { return getNumBatch() + 3; }
    unsigned cDim() { return getNumBatch() + 5; }
    unsigned pointDim() { return getNumBatch() + 6; }
  }];
}

def Kernel_AttentionOp : Kernel_Op<"attention",
    [RecursiveMemoryEffects, DeclareOpInterfaceMethods<Kernel_StructuredOpInterface, ["getResultDims", "getRegionDims", "isOperand"]>]> {
  let summary = "softmax(scale * q kᵀ + bias) v";
  let description = [{
    ```mlir
    %o = kernel.attention batch [1, 12] m 128 n 128 d 64 dv 64 scale 0.125 {causal}
      q { … } k { … } v { … } bias { … } : tensor<1x12x128x64xf32>
    ```
    result[batch, m, dv] = sum over n of p[m, n] * v(batch, n, dv), where
    p[m, ·] = softmax over n of (scale * sum over d of q(batch, m, d) * k(batch, n, d) + bias(batch, m, n)).
    With `causal`, n > m is left out. A row in which all is left out or -inf gives 0; with `nan` NaN, unless there are no keys.
    With a `score` region, the softmax is of what that makes of the scaled product and, if there is one, of the bias, which is then
    not added:
    ```mlir
    score {
    ^bb0(%product: f32, %bias: f32):
      %0 = math.tanh %product : f32
      %1 = arith.addf %0, %bias : f32
      kernel.yield %1 : f32
    }
    ```
    Dims are numbered batch…, m, n, d, dv, and every region's maps take all of them. An empty `bias` region adds nothing, and one
    that is 0 becomes empty. `perm` says which of (batch…, m, dv) each dim of the result is, counted in that order.

    It stays one op until a target tiles it, then becomes the online-softmax loop (Milakov and
    Gimelshein, 2018; Dao et al., FlashAttention, 2022): the score matrix is never in memory.

    `part`, if given, cuts the keys: part p has those from p*part to (p + 1)*part - 1. Then there are
    three results, whose first dim is the part: the sum over the part's keys of exp(x - maximum) * v,
    where x is what the softmax is of; the maximum of x, of shape [n ceildiv part, batch…, m], -inf if
    all keys are left out; and the sum of exp(x - maximum), of the same shape. All are of the type in
    which sums are made.

    Constraints: as `kernel.contract`, with (C1) the result's shape the (permuted) batch, m, dv; further
    - (C8) with `part`, and only then, there are a maximum and a sum, of the result's element type, which
      is at least as wide as that of q, k and v; else it is that type
    - (C9) `score` takes one number, or two if there is a bias, and yields one, all of the type in which sums are
      made (f32 for narrower floats); it holds scalar ops alone: nothing that takes dims, no region
  }];
  let arguments = (ins Sym_ShapeAttr:$batch, Sym_ExprAttr:$m, Sym_ExprAttr:$n, Sym_ExprAttr:$d,
                       Sym_ExprAttr:$dv, F64Attr:$scale, UnitAttr:$causal,
                       UnitAttr:$nan, OptionalAttr<DenseI64ArrayAttr>:$perm, OptionalAttr<Sym_ExprAttr>:$part);
  let results = (outs AnyRankedTensor:$result, Variadic<AnyRankedTensor>:$state);
  let regions = (region SizedRegion<1>:$q, SizedRegion<1>:$k, SizedRegion<1>:$v,
                        MaxSizedRegion<1>:$bias, MaxSizedRegion<1>:$score);
  let assemblyFormat = [{
    `batch` custom<ExprList>($batch) `m` $m `n` $n `d` $d `dv` $dv `scale` $scale
    (`causal` $causal^)? (`nan` $nan^)? (`perm` $perm^)? (`part` custom<Size>($part)^)? attr-dict-with-keyword
    `q` $q `k` $k `v` $v `bias` $bias (`score` $score^)? `:` type($result) (`,` type($state)^)?
  }];
  let hasVerifier = 1;
  let hasCanonicalizeMethod = 1;
  let extraClassDeclaration = [{
    unsigned getNumBatch() { return getBatch().getSizes().size(); }
    /// The size of the results' first dim; null if there is no `part`.
    std::optional<::kiln::sym::Expr> getNumParts();
  }];
}

def Kernel_ScanOp : Kernel_Op<"scan",
    [RecursiveMemoryEffects, DeclareOpInterfaceMethods<Kernel_StructuredOpInterface, ["getRegionDims"]>]> {
  let summary = "running reductions along one dim";
  let description = [{
    ```mlir
    %y = kernel.scan dim 1 init {
      %zero = arith.constant 0.0 : f64
      kernel.yield %zero : f64
    } body {
      %x = kernel.read %t (d0, d1) -> (d0, d1) : tensor<8x4xf32> -> f32
      %w = arith.extf %x : f32 to f64
      kernel.yield %w : f64
    } combine {
    ^bb0(%sum: f64, %next: f64):
      %s = arith.addf %sum, %next : f64
      kernel.yield %s : f64
    } finish {
    ^bb0(%sum: f64):
      %s = arith.truncf %sum : f64 to f32
      kernel.yield %s : f32
    } : tensor<8x4xf32>
    ```
    Along `dim`, a state of k values starts as `init`, and `combine` takes it and the k values of `body` to
    the next one; element i of the results is `finish` of the state after i's. Elements are taken in
    order, so `combine` need not be associative. All regions' maps take the dims of the result shape.

    With `associative`, `combine` is associative (but for rounding) although it is no single operation:
    what several threads have computed of a line may be combined.

    With `part`, every `part` elements of a line start on their own, from what `init` is at the first of
    them (`cuda-split-scans`); only then may `init` depend on `dim`.

    Constraints:
    - (C1) all results have the same shape, of which `dim` is a dim
    - (C2) `init` and `body` yield k values of the same types; without `part`, `init` does not depend
      on `dim`
    - (C3) `combine` takes 2k arguments of these types and yields k
    - (C4) `finish` takes k and yields one value for each result, of its element type (signless)
    - (C5) `part` is positive
  }];
  let arguments = (ins I64Attr:$dim, UnitAttr:$associative, OptionalAttr<Sym_ExprAttr>:$part);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let regions = (region SizedRegion<1>:$init, SizedRegion<1>:$body, SizedRegion<1>:$combine,
                        SizedRegion<1>:$finish);
  let assemblyFormat = [{
    `dim` $dim (`associative` $associative^)? (`part` custom<Size>($part)^)? attr-dict-with-keyword
    `init` $init `body` $body `combine` $combine `finish` $finish
    `:` type($results)
  }];
  let hasVerifier = 1;
}

def Kernel_ScatterOp : Kernel_Op<"scatter",
    [RecursiveMemoryEffects, DeclareOpInterfaceMethods<Kernel_StructuredOpInterface, ["getResultDims", "getRegionDims"]>]> {
  let summary = "a tensor with writes at places that data gives";
  let description = [{
    ```mlir
    // y = x.index_add(0, index, source)
    %y = kernel.scatter batch [64] targets [100] places [7] perm [1, 0] init {
      %old = kernel.read %x (d0, d1, d2) -> (d1, d0) : tensor<100x64xf32> -> f32
      kernel.yield %old : f32
    } update {
      %at = kernel.read %index (d0, d1, d2) -> (d2) : tensor<7xi64> -> i64
      %new = kernel.read %source (d0, d1, d2) -> (d2, d0) : tensor<7x64xf32> -> f32
      %always = arith.constant true
      kernel.yield %at, %always, %new : i64, i1, f32
    } combine {
    ^bb0(%old: f32, %new: f32):
      %sum = arith.addf %old, %new : f32
      kernel.yield %sum : f32
    } : tensor<100x64xf32>
    ```
    Every element starts as `init`. Then, for every place in row-major order, `update` gives an index into
    the targets, whether to write, and a value, which `combine` puts together with what is there. An index
    outside the targets fails the run. Dims are numbered batch, targets, places; `init` uses the batch and
    target dims, `update` the batch and place dims. `perm` says which of (batch…, targets…) each dim of
    the result is.

    Constraints:
    - (C1) the result's shape is the (permuted) batch and targets
    - (C2) `init` yields a value of the result's element type (signless)
    - (C3) `update` yields an i64 for each target dim, an i1 and a value of that type
    - (C4) `combine` takes two values of that type and yields one
    - (C5) regions use only the dims they may
    - (C6) `perm` is a permutation
  }];
  let arguments = (ins Sym_ShapeAttr:$batch, Sym_ShapeAttr:$targets, Sym_ShapeAttr:$places,
                       OptionalAttr<DenseI64ArrayAttr>:$perm);
  let results = (outs AnyRankedTensor:$result);
  let regions = (region SizedRegion<1>:$init, SizedRegion<1>:$update, SizedRegion<1>:$combine);
  let assemblyFormat = [{
    `batch` custom<ExprList>($batch) `targets` custom<ExprList>($targets)
    `places` custom<ExprList>($places) (`perm` $perm^)? attr-dict-with-keyword
    `init` $init `update` $update `combine` $combine `:` type($result)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    unsigned getNumBatch() { return getBatch().getSizes().size(); }
    unsigned getNumTargets() { return getTargets().getSizes().size(); }
    unsigned getNumPlaces() { return getPlaces().getSizes().size(); }
  }];
}

def Kernel_SortOp : Kernel_Op<"sort",
    [RecursiveMemoryEffects, DeclareOpInterfaceMethods<Kernel_StructuredOpInterface>]> {
  let summary = "the order of the last dim";
  let description = [{
    ```mlir
    %positions, %keys, %spare = kernel.sort {
      %key = kernel.read %t (d0, d1) -> (d0, d1) : tensor<8x4xi64> -> i64
      kernel.yield %key : i64
    } : tensor<8x4xi64>, tensor<8x4xi64>, tensor<8x4xi64>
    ```
    `positions[…, i]` is where along the last dim the element stands that sorting by ascending signed key
    puts at i; equal keys keep their order. The other two results are memory to work in, and of no
    meaning.

    Constraints:
    - (C1) three results, of i64 and of one shape with at least one dim
    - (C2) the body yields an i64
  }];
  let results = (outs AnyRankedTensor:$positions, AnyRankedTensor:$keys, AnyRankedTensor:$spare);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    attr-dict-with-keyword $body `:` type($positions) `,` type($keys) `,` type($spare)
  }];
  let hasVerifier = 1;
}

def Kernel_MergeOp : Kernel_Op<"merge",
    [RecursiveMemoryEffects, DeclareOpInterfaceMethods<Kernel_StructuredOpInterface>]> {
  let summary = "sorted runs along the last dim, merged into longer ones";
  let description = [{
    ```mlir
    %merged = kernel.merge 8192 of 4096 {
      %x = kernel.read %t (d0, d1) -> (d0, d1) : tensor<8x10000xi64> -> i64
      kernel.yield %x : i64
    } : tensor<8x10000xi64>
    ```
    The body gives the elements. Along the last dim they form runs of `of` elements, each in ascending
    order; the last run may be shorter. The result has the same elements in ascending runs of `into`. A
    single element is a run, so `of = 1` sorts. An element may have several values, and each has a result:
    the first ones are compared, then, of equal elements, the next ones, as signed integers.

    Constraints:
    - (C1) at least one result, all of one shape with at least one dim
    - (C2) the body yields an integer of each result's element type
    - (C3) `of` is positive, and `into` is a larger multiple of it
  }];
  let arguments = (ins I64Attr:$into, I64Attr:$of);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$into `of` $of attr-dict-with-keyword $body `:` type($results)";
  let hasVerifier = 1;
}

def Kernel_RepeatOp : Kernel_Op<"repeat",
    [RecursiveMemoryEffects, DeclareOpInterfaceMethods<Kernel_StructuredOpInterface, ["getRegionDims"]>]> {
  let summary = "the numbers of elements, each as often as its count says";
  let description = [{
    ```mlir
    %places = kernel.repeat total s0 chunk 4096 count {
      %m = kernel.read %mask (d0, d1) -> (4096*d0 + d1) : tensor<?xi1, #sym.shape<[s0]>> -> i1
      kernel.yield %m : i1
    } start {
      %s = kernel.read %starts (d0, d1) -> (d0) : tensor<?xi64, #sym.shape<[s0 ceildiv 4096]>> -> i64
      kernel.yield %s : i64
    } : tensor<?xi64, #sym.shape<[u0]>>
    ```
    With counts of 0 and 1 this is compaction: the places where a mask holds, in order. Element number
    i is in chunk d0 = i floordiv `chunk`, at place d1 = i mod `chunk` of it. `count` says how often i
    stands in the result (an i64, below zero as zero; an i1 as 0 or 1), `start` how many results the
    chunks before this one have, so that chunks can be done in parallel. The result's size is the sum
    of all counts; what would lie past it is not written.

    Constraints:
    - (C1) `count` yields an i1 or an i64, `start` an i64
    - (C2) the result is a vector of i64
    - (C3) `start` does not use d1
  }];
  let arguments = (ins Sym_ExprAttr:$total, Sym_ExprAttr:$chunk);
  let results = (outs AnyRankedTensor:$result);
  let regions = (region SizedRegion<1>:$count, SizedRegion<1>:$start);
  let assemblyFormat = [{
    `total` custom<Size>($total) `chunk` custom<Size>($chunk) attr-dict-with-keyword
    `count` $count `start` $start `:` type($result)
  }];
  let hasVerifier = 1;
}

//===-- What the host knows ---------------------------------------------------------------------===//

def Kernel_DefineOp : Kernel_Op<"define", [MemoryEffects<[MemWrite]>]> {
  let summary = "gives a symbol its value";
  let description = [{
    `kernel.define "u0" from %count : tensor<i64>` reads it from data that the program has computed,
    `kernel.define "u1" = max(s0 - u0, 0)` from symbols that are known. Types and maps of what
    follows may use it.

    Constraints:
    - (C1) either a 0-d tensor of i64 or an expression
  }];
  let arguments = (ins StrAttr:$symbol, Optional<AnyRankedTensor>:$value,
                       OptionalAttr<Sym_ExprAttr>:$expr);
  let assemblyFormat = [{
    $symbol (`from` $value^ `:` type($value))? (`=` custom<Size>($expr)^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Kernel_AssertOp : Kernel_Op<"assert", [MemoryEffects<[MemWrite]>]> {
  let summary = "fails the run unless an expression is at least zero";
  let description = "`kernel.assert u0 - 2, \"u0 must be at least 2\"`.";
  let arguments = (ins Sym_ExprAttr:$expr, StrAttr:$message);
  let assemblyFormat = "custom<Size>($expr) `,` $message attr-dict";
}

def Kernel_CheckOp : Kernel_Op<"check", [MemoryEffects<[MemWrite]>]> {
  let summary = "fails the run unless data says that all is well";
  let description = [{
    `kernel.check %ok, "sum is not positive" : tensor<i1>`. Constraint (C1): a 0-d tensor of i1.
  }];
  let arguments = (ins AnyRankedTensor:$condition, StrAttr:$message);
  let assemblyFormat = "$condition `,` $message attr-dict `:` type($condition)";
  let hasVerifier = 1;
}

//===-- Kernels ---------------------------------------------------------------------------------===//

def Kernel_FuncOp : Kernel_Op<"func", [IsolatedFromAbove, FunctionOpInterface, OpAsmOpInterface]> {
  let summary = "one kernel: a structured op that a target compiles on its own";
  let description = [{
    Takes and returns tensors; a launch passes the operand buffers, then the result buffers. Body: one
    structured op and `kernel.return`. `schedule` says how it is run, and `launch` what follows from that
    for the host program: the number of tasks and the memory they need. A target sets both. With
    `aligned`, all launches pass buffers that begin at multiples of 16 bytes. With `updates = 2`, all launches
    pass the memory of operand 2 as that of the result, too: a scatter writes what its places say and leaves
    the rest as it is.

    Constraints:
    - (C1) `schedule` is for structured ops of this kind
    - (C2) `updates` is an operand of a scatter that begins as that operand is in memory, and that reads it
      for nothing else
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type,
                       OptionalAttr<StrAttr>:$sym_visibility,
                       OptionalAttr<DictArrayAttr>:$arg_attrs,
                       OptionalAttr<DictArrayAttr>:$res_attrs,
                       OptionalAttr<Kernel_ScheduleAttrInterface>:$schedule,
                       OptionalAttr<Kernel_LaunchAttr>:$launch, UnitAttr:$aligned,
                       OptionalAttr<I64Attr>:$updates);
  let regions = (region AnyRegion:$body);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    llvm::ArrayRef<mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    llvm::ArrayRef<mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    mlir::Region *getCallableRegion() { return &getBody(); }
    /// The structured op that this kernel runs.
    mlir::Operation *getRoot() { return &getBody().front().front(); }
  }];
  let builders = [OpBuilder<(ins "llvm::StringRef":$name, "mlir::FunctionType":$type)>];
  let skipDefaultBuilders = 1;
  let hasVerifier = 1;
}

def Kernel_ReturnOp : Kernel_Op<"return", [Pure, Terminator, ReturnLike, HasParent<"FuncOp">]> {
  let summary = "a kernel's results";
  let arguments = (ins Variadic<AnyRankedTensor>:$operands);
  let assemblyFormat = "$operands `:` type($operands) attr-dict";
}

def Kernel_CallOp : Kernel_Op<"call", [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "the results of a kernel";
  let description = [{
    `%y = kernel.call @k0(%x) : (tensor<8xf32>) -> tensor<8xf32>`: what outlining leaves in place of a
    structured op. Several calls may share a kernel.
    Constraint (C1): `kernel` is a `kernel.func` with these operand and result types.
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<AnyRankedTensor>:$operands);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = "$kernel `(` $operands `)` attr-dict `:` functional-type($operands, $results)";
}

def Kernel_SpanOp : Kernel_Op<"span", [Pure]> {
  let summary = "consecutive elements of a tensor";
  let description = [{
    `%s = kernel.span %x from 128 : tensor<4x8x64xf32> -> tensor<1600xf32>`: the elements of `tensor` in the
    order of memory, from number `first` on. Outlining hands spans to kernels that differ in nothing but the
    place at which they read, so that these are one kernel.

    Constraints:
    - (C1) the result has one dim and the tensor's element type
    - (C2) what can be proved to lie outside the tensor is refused
  }];
  let arguments = (ins AnyRankedTensor:$tensor, Sym_ExprAttr:$first);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$tensor `from` custom<Size>($first) attr-dict `:` type($tensor) `->` type($result)";
  let hasVerifier = 1;
}

def Kernel_BitcastOp : Kernel_Op<"bitcast", [Pure]> {
  let summary = "a tensor's memory as wider integers";
  let description = [{
    `%w = kernel.bitcast %x : tensor<4x8x64xui8> -> tensor<4x8x16xi32>`: an element of the result is as many neighbours of
    the last dim as fill it, the first in the lowest bits. Nothing is copied.

    Constraints:
    - (C1) elements are integers of whole bytes, those of the result N times as wide as the tensor's, N > 1
    - (C2) the tensor has the result's sizes, but N times the last one
  }];
  let arguments = (ins AnyRankedTensor:$tensor);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$tensor attr-dict `:` type($tensor) `->` type($result)";
  let hasVerifier = 1;
}

#endif // KILN_KERNEL_OPS_TD
