/** Bounded maps: what is kept is what was used or added last. */
export { FifoMap } from './fifo-map.ts'
export { PerNamespace } from './per-namespace.ts'
export { RecentMap } from './recent-map.ts'
