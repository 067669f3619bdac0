// Kernels that the user has written in Triton: their code, and how it is launched.
#ifndef KILN_TRITON_OPS_TD
#define KILN_TRITON_OPS_TD

include "kiln/Dialect/Kernel/KernelDialect.td"

def Kernel_TritonImageAttr : AttrDef<Kernel_Dialect, "TritonImage"> {
  let mnemonic = "triton_image";
  let summary = "code of a Triton kernel for one architecture";
  let description = [{
    `#kernel.triton_image<arch = "sm_90", kind = "cubin", shared = 4096, code = dense_resource<…> : tensor<5120xi8>>`

    `shared`: bytes of shared memory of a block.

    Constraints. (C1) `kind` is `cubin`, `ptx` or `emulator`. (C2) `code` is a row of bytes, at least one. (C3) `shared`
    is at most 227 KiB.
  }];
  let parameters = (ins StringRefParameter<>:$arch, StringRefParameter<>:$kind, "int64_t":$shared,
                        "::mlir::DenseResourceElementsAttr":$code);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Kernel_TritonConfigAttr : AttrDef<Kernel_Dialect, "TritonConfig"> {
  let mnemonic = "triton_config";
  let summary = "a Triton kernel compiled with one set of constants";
  let description = [{
    ```mlir
    #kernel.triton_config<function = "softmax", threads = 128, alignment = 16, grid = [3, 4, 5],
                          parameters = [0, 1, 2, -1],
                          types = [tensor<*xf32>, tensor<*xf32>, i32, tensor<*xi8>],
                          images = [#kernel.triton_image<…>]>
    ```
    - `function`: its name in the images. `threads` of a block.
    - `alignment`: addresses that it is given are multiples of this.
    - `grid`: which inputs of the call are the numbers of blocks in x, y and z.
    - `parameters`: the input that each parameter of the function is; -1: a null pointer.
    - `types`: of each parameter, `tensor<*xf32>` for a pointer to f32.

    Constraints. (C1) `threads` is a multiple of 32 up to 1024, `alignment` a power of two up to 16. (C2) `grid` has three inputs. (C3) `types` has a pointer or a number for each parameter, and a pointer
    where that is -1. (C4) `images` are images, at least one.
  }];
  let parameters = (ins StringRefParameter<>:$function, "int64_t":$threads, "int64_t":$alignment,
                        "::mlir::DenseI64ArrayAttr":$grid, "::mlir::DenseI64ArrayAttr":$parameters,
                        "::mlir::ArrayAttr":$types, "::mlir::ArrayAttr":$images);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Kernel_TritonOp : Kernel_Op<"triton", [Symbol]> {
  let summary = "a kernel that the user has written in Triton";
  let description = [{
    ```mlir
    kernel.triton @softmax_1f2e inputs ["x", "y", "n"] configs [#kernel.triton_config<…>, …]
    ```
    A `torch.higher_order "triton_kernel_wrapper_functional"` with the attribute `kernel.triton = @softmax_1f2e` is a launch
    of it with these inputs, and so is a `kernel.extern "triton"` with that callee. The first image of the first of
    `configs` is launched that the GPU runs and has room for.

    Constraints:
    - (C1) `configs` are configurations, at least one
    - (C2) they refer to inputs that there are
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrArrayAttr:$inputs, ArrayAttr:$configs);
  let assemblyFormat = "$sym_name `inputs` $inputs `configs` $configs attr-dict";
  let hasVerifier = 1;
}

#endif // KILN_TRITON_OPS_TD
