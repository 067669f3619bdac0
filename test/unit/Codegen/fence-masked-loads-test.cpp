// Masked loads beside selects under the same mask: fenced where CPUs have mask registers, whatever
// their elements are; the loads of selects under other masks are left alone.
#include "kiln/Codegen/ObjectCompiler.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/raw_ostream.h"
#include <gtest/gtest.h>

using namespace kiln::codegen;

namespace {

/// A load of eight `type`s under %m, then a select under `mask`.
std::string makeText(const std::string &type, const std::string &mask) {
  std::string vector = "<8 x " + type + ">", name = type == "float" ? "f32" : type;
  std::string load = "@llvm.masked.load.v8" + name + ".p0";
  return "declare " + vector + " " + load + "(ptr, <8 x i1>, " + vector + ")\n" + "define " +
         vector + " @f(ptr %p, <8 x i1> %m, <8 x i1> %n, " + vector + " %x) {\n" + "  %a = call " +
         vector + " " + load + "(ptr align 1 %p, <8 x i1> %m, " + vector + " zeroinitializer)\n" +
         "  %r = select <8 x i1> " + mask + ", " + vector + " %a, " + vector + " %x\n" + "  ret " +
         vector + " %r\n}\n";
}

size_t countFences(const std::string &text, llvm::StringRef cpu) {
  llvm::Expected<CPUInfo> target = CPUInfo::get(cpu);
  if (!target) {
    ADD_FAILURE() << llvm::toString(target.takeError());
    return 0;
  }
  size_t count = 0;
  ObjectOptions options;
  options.onModule = [&](const llvm::Module &module) {
    std::string printed;
    llvm::raw_string_ostream(printed) << module;
    count = llvm::StringRef(printed).count("call <") - 1; // the load
  };
  auto object = compileTextToObject("test.ll", text, *target, options);
  EXPECT_TRUE(!!object) << (object ? "" : llvm::toString(object.takeError()));
  return count;
}

TEST(FenceMaskedLoads, OfOneMask) {
  for (const char *type : {"float", "i32", "i8", "i16", "i64"})
    EXPECT_EQ(countFences(makeText(type, "%m"), "x86-64-v4"), 1u) << type;
}

TEST(FenceMaskedLoads, OfOtherMasks) {
  EXPECT_EQ(countFences(makeText("float", "%n"), "x86-64-v4"), 0u);
}

TEST(FenceMaskedLoads, WithoutMaskRegisters) {
  EXPECT_EQ(countFences(makeText("float", "%m"), "x86-64-v3"), 0u);
}

} // namespace
