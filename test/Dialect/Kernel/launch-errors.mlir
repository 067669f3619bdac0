// RUN: kiln-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{a launch with -1 threads and 0 bytes of scratch memory}}
#c2 = #kernel.launch<grid = <1>, threads = -1>

// -----

// expected-error@+1 {{a launch with 0 threads and -64 bytes of scratch memory}}
#c2 = #kernel.launch<grid = <1>, scratch = -64>

// -----

// expected-error@+1 {{grid}}
#grid = #kernel.launch<threads = 128>

// -----

// expected-error@+1 {{has a schedule #codegen.repeat<lanes = 8> that is not for kernel.map}}
kernel.func @schedule_c1(%x: tensor<8xf32>) -> tensor<8xf32> attributes {schedule = #codegen.repeat<lanes = 8>} {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<8xf32> -> f32
    kernel.yield %a : f32
  } : tensor<8xf32>
  kernel.return %y : tensor<8xf32>
}

// -----

// expected-error@+1 {{attribute 'schedule' failed to satisfy constraint: ScheduleAttrInterface instance}}
kernel.func @schedule_type(%x: tensor<8xf32>) -> tensor<8xf32> attributes {schedule = "fast"} {
  %y = kernel.map {
    %a = kernel.read %x (d0) -> (d0) : tensor<8xf32> -> f32
    kernel.yield %a : f32
  } : tensor<8xf32>
  kernel.return %y : tensor<8xf32>
}
