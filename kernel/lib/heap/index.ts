export { type HeapMeter, HeapTrimmer } from './heap-trimmer.ts'
export { collectWhenGrown } from './old-generation.ts'
