// Masked stores under constant masks: of one lane, a store of its element where CPUs have mask
// registers; of other masks, left as they are.
#include "kiln/Codegen/ObjectCompiler.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/raw_ostream.h"
#include <gtest/gtest.h>

using namespace kiln::codegen;

namespace {

/// The program after the change, for a store of the bytes of four integers under `mask`.
std::string compileStore(llvm::StringRef mask, llvm::StringRef cpu) {
  std::string text =
      "declare void @llvm.masked.store.v4i8.p0(<4 x i8>, ptr, <4 x i1>)\n"
      "define void @f(ptr %p, <4 x i32> %x, <4 x i1> %m) {\n"
      "  %first = icmp ult <4 x i32> <i32 0, i32 1, i32 2, i32 3>, splat (i32 1)\n"
      "  %not = xor <4 x i1> %first, splat (i1 true)\n"
      "  %last = xor <4 x i1> %not, splat (i1 true)\n"
      "  %y = trunc <4 x i32> %x to <4 x i8>\n"
      "  call void @llvm.masked.store.v4i8.p0(<4 x i8> %y, ptr align 1 %p, <4 x i1> " +
      mask.str() + ")\n  ret void\n}\n";
  llvm::Expected<CPUInfo> target = CPUInfo::get(cpu);
  if (!target) {
    ADD_FAILURE() << llvm::toString(target.takeError());
    return "";
  }
  std::string printed;
  ObjectOptions options;
  options.onModule = [&](const llvm::Module &module) {
    llvm::raw_string_ostream(printed) << module;
  };
  auto object = compileTextToObject("test.ll", text, *target, options);
  EXPECT_TRUE(!!object) << (object ? "" : llvm::toString(object.takeError()));
  return printed;
}

TEST(StoreSingleLanes, OfOneLane) {
  for (const char *mask : {"<i1 true, i1 false, i1 false, i1 false>",
                           "<i1 false, i1 false, i1 true, i1 false>", "%first", "%last"}) {
    std::string text = compileStore(mask, "x86-64-v4");
    EXPECT_NE(text.find("store i8 "), std::string::npos) << text;
    EXPECT_EQ(text.find("call void @llvm.masked.store"), std::string::npos) << text;
  }
}

TEST(StoreSingleLanes, OfOthers) {
  for (const char *mask :
       {"<i1 true, i1 true, i1 false, i1 false>", "zeroinitializer", "%m", "%not"}) {
    std::string text = compileStore(mask, "x86-64-v4");
    EXPECT_EQ(text.find("store i8 "), std::string::npos) << text;
    EXPECT_NE(text.find("call void @llvm.masked.store"), std::string::npos) << text;
  }
}

} // namespace
