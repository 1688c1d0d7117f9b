// Test bench for a filter with AXI4-Stream and AXI4-Lite, meant to be copied and adapted:
//
//   lately export --preset tiny --name seen_lately --bus axi4-lite --out-dir ip
//   iverilog -g2005 -o bench ip/seen_lately.v seen_lately_bench.v && vvp bench
//
// It checks and inserts twenty keys, clears the filter through a register, checks one of the keys
// again, and reads the counters.
`timescale 1ns / 1ps

module seen_lately_bench;
  // Operations, register addresses and register bits: see ip/seen_lately.md.
  localparam [2:0] CHECK_AND_INSERT = 3'd3;
  localparam [7:0] CONTROL = 8'h14, STATUS = 8'h18, OPERATIONS = 8'h80, HITS = 8'h90;
  localparam [31:0] ENABLE = 32'h1, CLEAR = 32'h4, SNAPSHOT = 32'h8;

  reg clock = 1'b0, resetn = 1'b0;
  always #5 clock = ~clock;

  reg [7:0] key = 8'd0, tag = 8'd0;
  reg key_valid = 1'b0;
  wire key_ready, result_valid;
  wire [7:0] result, result_tag;

  reg [7:0] address = 8'd0;
  reg [31:0] written = 32'd0;
  reg aw_valid = 1'b0, w_valid = 1'b0, ar_valid = 1'b0;
  wire aw_ready, w_ready, ar_ready, b_valid, r_valid;
  wire [31:0] read;
  wire [1:0] b_resp, r_resp;

  seen_lately dut (
      .aclk(clock),
      .aresetn(resetn),
      .s_axis_tdata(key),
      .s_axis_tuser({tag, CHECK_AND_INSERT}),
      .s_axis_tvalid(key_valid),
      .s_axis_tready(key_ready),
      .m_axis_tdata(result),
      .m_axis_tuser(result_tag),
      .m_axis_tvalid(result_valid),
      .m_axis_tready(1'b1),
      .s_axil_awaddr(address),
      .s_axil_awprot(3'd0),
      .s_axil_awvalid(aw_valid),
      .s_axil_awready(aw_ready),
      .s_axil_wdata(written),
      .s_axil_wstrb(4'hf),
      .s_axil_wvalid(w_valid),
      .s_axil_wready(w_ready),
      .s_axil_bresp(b_resp),
      .s_axil_bvalid(b_valid),
      .s_axil_bready(1'b1),
      .s_axil_araddr(address),
      .s_axil_arprot(3'd0),
      .s_axil_arvalid(ar_valid),
      .s_axil_arready(ar_ready),
      .s_axil_rdata(read),
      .s_axil_rresp(r_resp),
      .s_axil_rvalid(r_valid),
      .s_axil_rready(1'b1)
  );

  // Results arrive in the order of the keys. Bit 0 is set if the key was seen.
  integer results = 0, seen = 0;
  always @(posedge clock)
    if (result_valid) begin
      $display("result %0d: %0s", result_tag, result[0] ? "seen lately" : "new");
      results = results + 1;
      if (result[0]) seen = seen + 1;
    end

  // A transfer takes place at a rising edge at which both valid and ready are high.
  task send(input [7:0] what);
    begin
      key <= what;
      key_valid <= 1'b1;
      @(posedge clock);
      while (!key_ready) @(posedge clock);
      key_valid <= 1'b0;
      tag <= tag + 8'd1;
    end
  endtask

  task write_register(input [7:0] where, input [31:0] value);
    begin
      address <= where;
      written <= value;
      aw_valid <= 1'b1;
      w_valid <= 1'b1;
      @(posedge clock);
      // Both channels are ready until they have accepted a request.
      aw_valid <= 1'b0;
      w_valid <= 1'b0;
      @(posedge clock);
      while (!b_valid) @(posedge clock);
      if (b_resp != 2'd0) $display("FAIL: write of %h answered by %0d", where, b_resp);
    end
  endtask

  task read_register(input [7:0] where, output [31:0] value);
    begin
      address <= where;
      ar_valid <= 1'b1;
      @(posedge clock);
      ar_valid <= 1'b0;
      @(posedge clock);
      while (!r_valid) @(posedge clock);
      value = read;
      if (r_resp != 2'd0) $display("FAIL: read of %h answered by %0d", where, r_resp);
    end
  endtask

  integer number;
  reg [31:0] value, operations, hits;

  initial begin
    repeat (4) @(posedge clock);
    resetn <= 1'b1;
    // Ten keys, each twice; the window of this filter holds at least eight insertions.
    for (number = 0; number < 20; number = number + 1) send(number / 2);
    wait (results == 20);
    write_register(CONTROL, ENABLE | CLEAR);
    value = 32'd1;
    while (value != 0) read_register(STATUS, value);
    send(8'd9);
    wait (results == 21);
    repeat (20) @(posedge clock);
    write_register(CONTROL, ENABLE | SNAPSHOT);
    read_register(OPERATIONS, operations);
    read_register(HITS, hits);
    $display("%0d operations, %0d hits", operations, hits);
    // The CLEAR is an operation as well.
    if (operations == 22 && hits == seen && seen >= 10 && seen < 20) $display("PASS");
    else $display("FAIL");
    $finish;
  end

  initial begin
    #100000 $display("FAIL: no end");
    $finish;
  end
endmodule
