/**
 * The stream of annotations as server-sent events. Each reader takes what is next from the store and from the cursor when he is ready for it, so that a slow one
 * costs a place and not a queue. An event's id is both places: with it as Last-Event-ID a reader misses nothing that is still kept.
 */
import type { ChangeCursor, ChangePosition, RowsChanged, Storage } from 'svcdb'
import { type Annotation, isAnnotated, ofRow, ofSignal } from './annotations.ts'
import { PageSize } from './page-size.ts'
import type { Store } from './store.ts'

/** Where a reader is. */
interface StreamPlace {
  /** Of the next signal. */
  signal: number
  /** Behind the rows that he has. */
  position: ChangePosition | undefined
}

interface StreamOptions {
  namespace: string
  store: Store
  storage: Storage
  /** undefined = from now on. */
  from: StreamPlace | undefined
  /** @returns why it is to end. */
  ended(): Promise<string | undefined>
  signal: AbortSignal
}

/** How often a comment shows that the connection stands. */
const KEEP_ALIVE_MS = 15_000
/** Signals that are read at once, at most. */
const PAGE = 50
/** Rows of one write that are told; of larger ones the last. */
const ROWS = 1000

const ID = /^([0-9]{1,15})(?:\.([\x21-\x7e]{1,200}))?$/

/** @returns undefined for an id that is none of this stream. */
export function placeOf(id: string): StreamPlace | undefined {
  const [, signal, position] = ID.exec(id) ?? []
  return signal === undefined ? undefined : { signal: Number(signal), position }
}

const idOf = ({ signal, position }: StreamPlace): string => (position === undefined ? `${signal}` : `${signal}.${position}`)

function eventText(annotation: Annotation, place: StreamPlace): string {
  return `id: ${idOf(place)}\ndata: ${JSON.stringify(annotation)}\n\n`
}

export function errorText(error: string): string {
  return `event: error\ndata: ${JSON.stringify({ error })}\n\n`
}

export class AnnotationStream {
  private readonly options: StreamOptions
  private wakeUp: (() => void) | undefined
  private woken = false

  constructor(options: StreamOptions) {
    this.options = options
  }

  readonly wake = (): void => {
    this.woken = true
    this.wakeUp?.()
  }

  /** Texts to send, each asked for when the one before was taken. */
  async *texts(): AsyncGenerator<string> {
    const { namespace, store, storage, from, signal } = this.options
    const { first, next } = await store.range(namespace)
    const place: StreamPlace = { signal: from === undefined ? next : Math.min(from.signal, next), position: from?.position }
    const cursor = storage.changes({
      namespace,
      measurements: isAnnotated,
      kinds: ['rows'],
      signal,
      ...(place.position === undefined ? {} : { after: place.position }),
    })
    try {
      place.position ??= await cursor.position()
      yield `: from ${idOf(place)}\n\n`
      if (place.signal < first) yield errorText(`${first - place.signal} signals are no longer kept`)
      yield* this.follow(cursor, place)
    } finally {
      cursor.close()
    }
  }

  private async *follow(cursor: ChangeCursor, place: StreamPlace): AsyncGenerator<string> {
    const { ended } = this.options
    let coming: ReturnType<ChangeCursor['next']> | undefined
    for (;;) {
      const reason = await ended()
      if (reason !== undefined) return yield errorText(reason)
      this.woken = false
      yield* this.signals(place)
      coming ??= cursor.next()
      coming.catch(() => {})
      const came = await this.first(coming)
      if (came === 'idle') {
        // What is not wanted is passed: a reader who comes back need not look at it again.
        yield ': keep-alive\n\n'
      } else if (came !== 'woken') {
        coming = undefined
        if (came.done === true) return
        // It may have been waited for for long.
        const over = await ended()
        if (over !== undefined) return yield errorText(over)
        const change = came.value
        if (change.kind === 'rows') yield* this.rows(change, place)
        else if (change.kind === 'gap') {
          place.position = change.position
          yield `id: ${idOf(place)}\n${errorText('what was written before is no longer kept')}`
        }
      }
    }
  }

  private async *signals(place: StreamPlace): AsyncGenerator<string> {
    const { store, namespace, ended } = this.options
    const size = new PageSize(PAGE)
    for (;;) {
      const { next } = await store.range(namespace)
      if (place.signal >= next) return
      const page = await store.signals(namespace, place.signal, next, size.next)
      size.read(page)
      for (const signal of page) {
        place.signal = signal.metadata.sequence + 1
        yield eventText(ofSignal(signal), place)
        if ((await ended()) !== undefined) return
      }
      if (page.length === 0) place.signal = next
    }
  }

  private *rows(change: RowsChanged, place: StreamPlace): Generator<string> {
    const { measurement, rows, times, position } = change
    for (let row = Math.max(0, rows - ROWS); row < rows; row++) {
      const nanos = (BigInt(times[row * 2 + 1]) << 32n) | BigInt(times[row * 2] >>> 0)
      // A reader that is cut off within a write gets all of it again.
      if (row === rows - 1) place.position = position
      yield eventText(ofRow(measurement, Number(nanos / 1_000_000n)), place)
    }
  }

  /** Resolves with what comes first: a change, a signal, or the time for a sign of life. */
  private async first<T>(coming: Promise<T>): Promise<T | 'woken' | 'idle'> {
    if (this.woken) return 'woken'
    let timer: NodeJS.Timeout | undefined
    const other = new Promise<'woken' | 'idle'>((resolve) => {
      this.wakeUp = () => resolve('woken')
      timer = setTimeout(() => resolve('idle'), KEEP_ALIVE_MS)
    })
    try {
      return await Promise.race([coming, other])
    } finally {
      clearTimeout(timer)
      this.wakeUp = undefined
    }
  }
}
