/** Bounded maps: what is kept is what was used last. */
export { PerNamespace } from './per-namespace.ts'
export { RecentMap } from './recent-map.ts'
