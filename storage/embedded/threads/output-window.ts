/** Output handed over and not yet taken by its consumer, before `emit` makes its job wait. */
export const OUTPUT_WINDOW_BYTES = 4 << 20
