// The filter as a model, by DPI-C: compile X_dpi.c with the simulation.
package X_dpi;
  // Makes an empty filter; the secret is that of the hash "siphash", in two halves, else 0.
  import "DPI-C" function chandle X_dpi_new(
      input longint unsigned secret_low, input longint unsigned secret_high);
  // Performs an operation by its code in hardware. Returns the age of the key in the result, or -1
  // if it is not reported. Time and window are ignored by filters that have none.
  import "DPI-C" function longint X_dpi_perform(
      input chandle filter, input int operation, input bit [X_DPI_TOP:0] key,
      input longint timestamp, input longint window);
  import "DPI-C" function void X_dpi_free(input chandle filter);
endpackage
