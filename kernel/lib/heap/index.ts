export { type HeapMeter, HeapTrimmer } from './heap-trimmer.ts'
