/**
 * Snappy blocks decoded beside the main thread by WebAssembly (fill-module.ts), into shared memory that is used again.
 *
 * The library's thread pool would do it too, but takes new memory for each block and lets go of it late: hundreds of megabytes while blocks of a
 * megabyte come in a row (block.bench.ts).
 *
 * Invariants: a slot holds one block, from `decode` until it was read; what the thread leaves undone, because it failed or was stopped, the
 * main thread does. The thread starts with the first block that is worth it.
 */
import { Worker } from 'node:worker_threads'
import { moduleUrl } from '../modules/index.ts'
import { PAGE_BYTES, type SharedMemory, webAssembly } from '../web-assembly/index.ts'
import { checkedLength, fill } from './fill.ts'
import { READ_SLACK, WRITE_SLACK } from './fill-module.ts'

/** Below this, sending a block there and back costs more than decoding it. */
const SMALLEST = 128 * 1024
/** Larger blocks have no slot: memory that is kept stays bounded. */
const LARGEST = 4 * 1024 * 1024
/** Of a block, and of what it decodes to: address space, of which what was once written takes memory. */
const INPUT_BYTES = pages(LARGEST + READ_SLACK) * PAGE_BYTES
const OUTPUT_BYTES = pages(LARGEST + WRITE_SLACK) * PAGE_BYTES

/** All slots' memory: it does not grow. */
export interface SlotMemory {
  memory: SharedMemory
  maxPages: number
}

/** Addresses, and the length of what the block decodes to. */
export interface ToSnappyWorker {
  slot: number
  at: number
  end: number
  out: number
  length: number
}
/** `unable`: there is no WebAssembly with vectors. */
export type FromSnappyWorker = 'ready' | 'unable' | { slot: number; good: boolean }

interface Slot {
  number: number
  /** Addresses. */
  input: number
  output: number
  /** Bytes of the block, and of what it decodes to. */
  size: number
  length: number
  /** Takes what was decoded; undefined while the slot is free. */
  done: ((decoded: Uint8Array) => unknown) | undefined
  failed: (error: unknown) => void
}

/** A thread that decodes large blocks, started with the first of them. */
export class SnappyThread {
  private readonly slots: Slot[]
  private readonly free: Slot[]
  private readonly gone: (error: Error) => void
  private worker: Worker | undefined
  /** Where what is read lies, from the first block on. */
  memory: SlotMemory | undefined
  private bytes: Uint8Array = new Uint8Array(0)
  private ready = false
  /** Stopped, failed, or without WebAssembly: it is not started again. */
  private over = false

  /** @param slots blocks at a time. @param gone told when the thread fails. */
  constructor(slots: number, gone: (error: Error) => void) {
    this.slots = Array.from({ length: slots }, (_, number) => newSlot(number))
    this.free = [...this.slots]
    this.gone = gone
  }

  /**
   * @param read called with what the block decodes to, which is good until it returns, or until what it returns is settled; that comes back.
   * @returns undefined when the block is better decoded by the caller: too small, too large, or there is no slot. @throws BAD_REQUEST, later as well.
   */
  decode<T>(block: Uint8Array, read: (decoded: Uint8Array) => T | Promise<T>): Promise<T> | undefined {
    const length = checkedLength(block)
    if (length < SMALLEST || length > LARGEST || block.length > LARGEST || this.over || this.slots.length === 0) return undefined
    if (!this.ready) return this.start()
    const slot = this.free.pop()
    if (slot === undefined) return undefined
    this.bytes.set(block, slot.input)
    slot.size = block.length
    slot.length = length
    const result = readOf(slot, read)
    this.post({ slot: slot.number, at: slot.input, end: slot.input + block.length, out: slot.output, length })
    return result
  }

  /**
   * As `decode`, for bytes that somebody else has decoded, for readers that are faster in this memory.
   * @returns undefined when the caller had better read them where they are.
   */
  place<T>(bytes: Uint8Array, read: (placed: Uint8Array) => T | Promise<T>): Promise<T> | undefined {
    if (bytes.length < SMALLEST || bytes.length > LARGEST || !this.reserve()) return undefined
    const slot = this.free.pop()
    if (slot === undefined) return undefined
    this.bytes.set(bytes, slot.output)
    slot.length = bytes.length
    const result = readOf(slot, read)
    this.finish(slot, true)
    return result
  }

  async stop(): Promise<void> {
    this.over = true
    await this.worker?.terminate()
  }

  private start(): undefined {
    if (this.worker !== undefined || !this.reserve()) return
    let worker: Worker
    try {
      worker = new Worker(moduleUrl('./worker.ts', import.meta.url), { name: 'svc-snappy', workerData: this.memory })
    } catch (error) {
      // The system has no thread to give.
      this.over = true
      this.gone(error as Error)
      return
    }
    this.worker = worker
    worker.unref()
    worker.on('message', (message: FromSnappyWorker) => {
      if (message === 'ready') this.ready = true
      else if (message === 'unable') void this.stop()
      else this.finish(this.slots[message.slot], message.good)
    })
    worker.on('error', (error) => this.gone(error))
    worker.on('exit', () => {
      this.over = true
      for (const slot of this.slots) if (slot.done !== undefined) this.finish(slot, false)
    })
  }

  /** @returns whether there are slots in memory. */
  private reserve(): boolean {
    if (this.memory !== undefined) return true
    if (this.over || this.slots.length === 0) return false
    const maxPages = (this.slots.length * (INPUT_BYTES + OUTPUT_BYTES)) / PAGE_BYTES
    const memory = sharedMemory(maxPages)
    if (memory === undefined) {
      this.over = true
      return false
    }
    this.bytes = new Uint8Array(memory.buffer)
    this.memory = { memory, maxPages }
    return true
  }

  private post(message: ToSnappyWorker): void {
    this.worker?.postMessage(message)
  }

  /** @param good whether it is decoded. */
  private finish(slot: Slot, good: boolean): void {
    const { input, size, length, done, failed } = slot
    const output = this.bytes.subarray(slot.output, slot.output + OUTPUT_BYTES)
    slot.done = undefined
    const free = (): void => void this.free.push(slot)
    try {
      if (!good) fill(this.bytes.subarray(input, input + size), output, new DataView(output.buffer, output.byteOffset, output.length), length)
      const result = done?.(output.subarray(0, length))
      if (result instanceof Promise) result.then(free, free)
      else free()
    } catch (error) {
      failed(error)
      free()
    }
  }
}

/** What `read` makes of the slot, once it has been read. */
function readOf<T>(slot: Slot, read: (decoded: Uint8Array) => T | Promise<T>): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    slot.done = (decoded) => {
      const result = read(decoded)
      resolve(result)
      return result
    }
    slot.failed = reject
  })
}

function newSlot(number: number): Slot {
  const input = number * (INPUT_BYTES + OUTPUT_BYTES)
  return { number, input, output: input + INPUT_BYTES, size: 0, length: 0, done: undefined, failed: () => {} }
}

/** undefined where there is no WebAssembly, or not as much address space. */
function sharedMemory(size: number): SharedMemory | undefined {
  try {
    return webAssembly && new webAssembly.Memory({ initial: size, maximum: size, shared: true })
  } catch {
    return undefined
  }
}

function pages(bytes: number): number {
  return Math.ceil(bytes / PAGE_BYTES)
}
