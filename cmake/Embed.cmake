# Carries a file inside `target`: the bytes between the symbols `name`_begin and `name`_end, and a 0 behind them.
function(kiln_embed target name file)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${name}.c)
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT [[
/* Generated: the bytes of a file. */
__asm__(".section .rodata\n.balign 16\n.globl @name@_begin\n.globl @name@_end\n"
        "@name@_begin:\n.incbin \"@file@\"\n@name@_end:\n.byte 0\n.text\n");
]])
  target_sources(${target} PRIVATE ${source})
  set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS ${file} SKIP_PRECOMPILE_HEADERS ON)
  set_target_properties(${target} PROPERTIES C_COMPILER_LAUNCHER "") # ccache does not see what .incbin reads
endfunction()
