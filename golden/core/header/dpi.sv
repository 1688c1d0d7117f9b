// DPI-C model of the filter: compile X_dpi.c with the simulation.
package X_dpi;
  // Creates an empty filter. The secret, in two halves, is only for the hash "siphash", else 0.
  import "DPI-C" function chandle X_dpi_new(
      input longint unsigned secret_low, input longint unsigned secret_high);
  // Performs the operation with a hardware code. Returns the key's age as in a hardware result, or
  // -1 if the key is not reported. Filters without a time or window ignore these arguments.
  import "DPI-C" function longint X_dpi_perform(
      input chandle filter, input int operation, input bit [X_DPI_TOP:0] key,
      input longint timestamp, input longint window);
  import "DPI-C" function void X_dpi_free(input chandle filter);
endpackage
