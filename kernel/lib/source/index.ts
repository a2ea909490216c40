/** Work that brings points in by itself: waiting for room, and messages that are acknowledged when their points are durable. */
export { isTransient, type Patience, patiently, TRANSIENT } from './patience.ts'
export { Source } from './source.ts'
export type { Decoded, SourceHost, SourceMessage, SourceOptions, SourceStatus, SourceWritten } from './types.ts'
