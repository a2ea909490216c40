/** Arrays for what is decoded and not kept: used again, because new ones of this size for each row group would keep the garbage collector busy. */

/** Numbers. */
const GRAIN = 4096

export class ScratchPool {
  private readonly ints: Int32Array[] = []
  private readonly doubles: Float64Array[] = []
  private readonly room: number
  private held = 0
  private taken = false

  /** @param room bytes that wait for their next use. */
  constructor(room: number) {
    this.room = room
  }

  /** Bytes that wait. */
  get bytes(): number {
    return this.held
  }

  takeInts(length: number): Int32Array {
    this.taken = true
    return this.take(this.ints, length) ?? new Int32Array(rounded(length))
  }

  takeDoubles(length: number): Float64Array {
    this.taken = true
    return this.take(this.doubles, length) ?? new Float64Array(rounded(length))
  }

  /** Call now and then: when nothing was taken since the last call, what waits is let go. @returns bytes. */
  rest(): number {
    const { held, taken } = this
    this.taken = false
    if (taken) return 0
    this.ints.length = 0
    this.doubles.length = 0
    this.held = 0
    return held
  }

  give(array: Int32Array | Float64Array): void {
    if (this.held + array.byteLength > this.room) return
    this.held += array.byteLength
    if (array instanceof Int32Array) this.ints.push(array)
    else this.doubles.push(array)
  }

  /** The smallest that is large enough: a large one would be missing where it is needed. */
  private take<T extends Int32Array | Float64Array>(list: T[], length: number): T | undefined {
    let best = -1
    for (let i = 0; i < list.length; i++) if (list[i].length >= length && (best < 0 || list[i].length < list[best].length)) best = i
    if (best < 0) return undefined
    const array = list[best]
    list[best] = list[list.length - 1]
    list.pop()
    this.held -= array.byteLength
    return array
  }
}

/** Lengths are rounded up, so that an array serves for others of about its length. */
function rounded(length: number): number {
  return Math.ceil(length / GRAIN) * GRAIN
}

/** What a reader has taken of a pool. */
export class Scratch {
  private readonly pool: ScratchPool
  private readonly taken: (Int32Array | Float64Array)[] = []

  constructor(pool: ScratchPool) {
    this.pool = pool
  }

  /** At least `length` numbers, of any value. */
  ints(length: number): Int32Array {
    const array = this.pool.takeInts(length)
    this.taken.push(array)
    return array
  }

  doubles(length: number): Float64Array {
    const array = this.pool.takeDoubles(length)
    this.taken.push(array)
    return array
  }

  /** Gives all back: the blocks made of it are void. */
  release(): void {
    for (const array of this.taken.splice(0)) this.pool.give(array)
  }
}
