// A .pt2 file: a zip archive with an exported program and its weights.
//
// The file is mapped. A stored member is handed out as a range of the mapping, so weights are never
// copied; a deflated one is inflated into memory of its own. Names of members are relative to the
// archive's root folder, whatever that is called.
//
// Everything in the file is taken for hostile: offsets and sizes are checked against the file, and
// a deflated member cannot claim a size that its bytes cannot hold, nor all of them together more
// memory than the reader has been allowed.
#ifndef KILN_FRONTEND_PT2ARCHIVE_H
#define KILN_FRONTEND_PT2ARCHIVE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <string>

namespace kiln::frontend {

class Pt2Archive {
public:
  static constexpr uint64_t defaultMaxUnpacked = uint64_t(4) << 30;

  /// Opens `path`. The error names the file. `maxUnpacked` is how many bytes of memory may be taken
  /// beyond the file's own.
  static llvm::Expected<std::unique_ptr<Pt2Archive>>
  open(llvm::StringRef path, uint64_t maxUnpacked = defaultMaxUnpacked);
  ~Pt2Archive();

  /// The root folder: the name that the program was saved under.
  llvm::StringRef rootName() const { return root; }
  bool contains(llvm::StringRef member) const { return members.contains(member); }
  /// Names of the members in `folder`, sorted.
  llvm::SmallVector<std::string> membersIn(llvm::StringRef folder) const;

  /// Bytes and what keeps them alive.
  struct Bytes {
    llvm::ArrayRef<char> data;
    std::shared_ptr<const void> owner;
    llvm::StringRef text() const { return {data.data(), data.size()}; }
  };
  /// The contents of a member. `verify` checks the CRC of a stored one too (an inflated one's
  /// always is): for text, not for gigabytes of weights.
  llvm::Expected<Bytes> read(llvm::StringRef member, bool verify);

  /// Checks a member that is one word. Older writers leave such members out.
  llvm::Error checkWord(llvm::StringRef member, llvm::StringRef expected);

  /// A member that is an archive itself, with a table of tensors: what `torch.save` writes.
  llvm::Expected<std::unique_ptr<Pt2Archive>> openSaved(llvm::StringRef member);

  /// Memory for what is in the archive, uninitialized; an error if it has had too much.
  llvm::Expected<std::shared_ptr<char[]>> allocate(uint64_t bytes);

private:
  struct Member;
  struct Zip;
  enum class Kind { Program, Tensors };
  /// Bytes of memory, shared with the archives inside.
  struct Budget {
    uint64_t allowed, left;
  };
  Pt2Archive();
  static llvm::Expected<std::unique_ptr<Pt2Archive>>
  open(llvm::StringRef path, Bytes bytes, Kind kind, std::shared_ptr<Budget> budget);
  llvm::Error readDirectory(Kind kind);
  llvm::Expected<Bytes> inflate(llvm::StringRef name, const Member &member);

  std::string path, root;
  Bytes file;
  std::unique_ptr<Zip> zip;
  std::shared_ptr<Budget> budget;
  llvm::StringMap<Member> members;
};

} // namespace kiln::frontend

#endif // KILN_FRONTEND_PT2ARCHIVE_H
