/** Long work in slices of the event loop, and bounds on JSON before it is parsed. */
export * from './json-bounds.ts'
export * from './turns.ts'
