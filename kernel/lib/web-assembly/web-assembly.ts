/** What is used of WebAssembly here: TypeScript declares it with browsers' globals only. */

/** Of a memory: sizes are told in pages. */
export const PAGE_BYTES = 65536
/** All that an address reaches. */
export const MAX_PAGES = 65536

/** Memory that several threads have. */
export interface SharedMemory {
  readonly buffer: SharedArrayBuffer
}

/** Memory of one thread. Grown, it has another buffer. */
export interface GrowingMemory {
  readonly buffer: ArrayBuffer
  /** @throws RangeError when there is no more. */
  grow(pages: number): number
}

interface WebAssembly {
  Memory: {
    new (size: { initial: number; maximum: number; shared: true }): SharedMemory
    new (size: { initial: number; maximum: number }): GrowingMemory
  }
  Module: new (bytes: Uint8Array) => object
  Instance: new (module: object, imports: Record<string, Record<string, unknown>>) => { exports: Record<string, unknown> }
}

/** undefined when Node.js was started without it. */
export const webAssembly: WebAssembly | undefined = (globalThis as unknown as { WebAssembly?: WebAssembly }).WebAssembly

/** A page that grows to MAX_PAGES without being copied; what was never written takes no memory. @returns undefined where there is none. */
export function growingMemory(): GrowingMemory | undefined {
  try {
    return webAssembly && new webAssembly.Memory({ initial: 1, maximum: MAX_PAGES })
  } catch {
    return undefined
  }
}
