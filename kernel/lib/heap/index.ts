export { type Collection, collect, collectAtRest, whenAtRest } from './collect.ts'
export { type HeapMeter, HeapTrimmer } from './heap-trimmer.ts'
export { collectWhenGrown } from './old-generation.ts'
export { countShortLived } from './short-lived.ts'
