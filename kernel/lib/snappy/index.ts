/** Snappy: whole bodies, blocks taken apart in slices, and a thread for large ones. */
export * from './block.ts'
export * from './fill.ts'
export * from './snappy.ts'
export * from './thread.ts'
