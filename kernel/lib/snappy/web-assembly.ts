/** What is used of WebAssembly here: TypeScript declares it with browsers' globals only. */
export interface SharedMemory {
  readonly buffer: SharedArrayBuffer
}

interface WebAssembly {
  /** Sizes in pages of 64 KiB. */
  Memory: new (size: {
    initial: number
    maximum: number
    shared: true
  }) => SharedMemory
  Module: new (bytes: Uint8Array) => object
  Instance: new (module: object, imports: Record<string, Record<string, unknown>>) => { exports: Record<string, unknown> }
}

/** undefined when Node.js was started without it. */
export const webAssembly: WebAssembly | undefined = (globalThis as unknown as { WebAssembly?: WebAssembly }).WebAssembly
