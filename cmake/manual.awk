# Makes a manual page of what a tool says to --help: awk -v tool=NAME -v version=V [-v brief=1] -f manual.awk
# brief leaves the options out, which for kiln-opt are all of LLVM's.
function quoted(text) {
  gsub(/\\/, "\\e", text)
  gsub(/-/, "\\-", text)
  sub(/^[.']/, "\\\\\\&&", text)
  return text
}
/^OVERVIEW: / {
  overview = substr($0, 11)
  sub(/\.$/, "", overview)
  if (overview !~ /^Kiln/)
    overview = tolower(substr(overview, 1, 1)) substr(overview, 2)
  printf ".TH %s 1 \"\" \"Kiln %s\" \"User Commands\"\n", toupper(tool), version
  printf ".SH NAME\n%s \\- %s\n", quoted(tool), quoted(overview)
}
/^USAGE: / { printf ".SH SYNOPSIS\n%s\n", quoted(substr($0, 8)) }
/^OPTIONS:/ { printf ".SH OPTIONS\n" }
brief { next }
# "  --name=<value>   - text"
match($0, /^ +-[^ ]* +- /) {
  name = substr($0, 1, RLENGTH - 2)
  gsub(/ /, "", name)
  printf ".TP\n.B %s\n%s\n", quoted(name), quoted(substr($0, RLENGTH + 1))
  next
}
match($0, /^  -[a-zA-Z] <[^>]*> +- /) {
  name = substr($0, 3, RLENGTH - 4)
  sub(/ +$/, "", name)
  printf ".TP\n.B %s\n%s\n", quoted(name), quoted(substr($0, RLENGTH + 1))
}
END {
  if (brief)
    printf ".TP\n.B \\-\\-help\nlists all of them\n"
}
