/** The Cedar engine, which is WebAssembly: a module of several megabytes, compiled where it is first used. */
export type Cedar = typeof import('@cedar-policy/cedar-wasm/nodejs')

/** Takes tens of milliseconds of the calling thread the first time. */
export function loadCedar(): Promise<Cedar> {
  return import('@cedar-policy/cedar-wasm/nodejs')
}
