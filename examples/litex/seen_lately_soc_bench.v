// Reads registers of the filter over the bus of the system that seen_lately_soc.py makes.
`timescale 1ns / 1ps

module seen_lately_soc_bench;
  reg clk = 0, rst = 1, cyc = 0;
  reg [31:0] address = 0;
  wire [31:0] word;
  wire ack, err;

  always #5 clk = ~clk;

  seen_lately_soc soc (
    .clk(clk), .rst(rst),
    .host_adr(address[31:2]), .host_cyc(cyc), .host_stb(cyc), .host_we(1'b0), .host_sel(4'hf),
    .host_dat_w(32'd0), .host_dat_r(word), .host_ack(ack), .host_err(err),
    .host_cti(3'd0), .host_bte(2'd0)
  );

  // In words: which register is read, and what it is.
  task read(input [8 * 8:1] name, input [31:0] at);
    begin
      @(posedge clk) #1;
      address = at;
      cyc = 1;
      @(posedge clk);
      while (!(ack | err)) @(posedge clk);
      if (err) $display("%0s: error", name);
      else $display("%0s: %h", name, word);
      #1 cyc = 0;
    end
  endtask

  initial begin
    repeat (4) @(posedge clk);
    #1 rst = 0;
    read("id", 32'h1000_0000);
    read("control", 32'h1000_0014);
    read("secret", 32'h1000_0030);
    $finish;
  end
endmodule
