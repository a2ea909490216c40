/** Work that brings points in by itself: waiting for room, and messages that are acknowledged when their points are durable. */
export { isTransient, type Patience, patiently, TRANSIENT } from './patience.ts'
