/** A copy in memory of what the state store has, kept as others change it there. */
import { setTimeout } from 'node:timers/promises'
import type { StateStore } from './state.ts'

const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 5000

/** Which keys are followed, and what is done with their changes. */
export interface FollowOptions {
  /** What the keys begin with. */
  prefixes: readonly string[]
  /**
   * Brings the copy up to date. One call at a time; what changes meanwhile is the next. @param keys may have been written or removed by others; undefined: all is to be
   * read, as at the start.
   */
  apply(keys: ReadonlySet<string> | undefined): Promise<void>
  /** A call has failed, and is tried again until it works. */
  failed(error: Error): void
}

/** A copy that is kept up to date, until it is stopped. */
export interface Following {
  /** No call is begun any more. Resolves when the last one has ended. */
  stop(): Promise<void>
}

/**
 * Reads all, and then what other processes change; what this one commits is not told, so it is whoever commits who changes the copy too. Resolves when all was read.
 * @throws what the first `apply` throws.
 */
export async function followState(state: StateStore, { prefixes, apply, failed }: FollowOptions): Promise<Following> {
  const stopped = new AbortController()
  let waiting: Set<string> | 'all' | undefined
  let running: Promise<void> | undefined
  let isRead = false
  const applyAll = async (): Promise<void> => {
    for (let pause = FIRST_PAUSE_MS; waiting !== undefined && !stopped.signal.aborted; ) {
      const taken: Set<string> | 'all' = waiting
      waiting = undefined
      try {
        await apply(taken === 'all' ? undefined : taken)
        pause = FIRST_PAUSE_MS
      } catch (error) {
        add(taken)
        failed(error as Error)
        await setTimeout(pause, undefined, { signal: stopped.signal, ref: false }).catch(() => {})
        pause = Math.min(LONGEST_PAUSE_MS, pause * 2)
      }
    }
  }
  const add = (more: Iterable<string> | 'all'): void => {
    waiting = more === 'all' || waiting === 'all' ? 'all' : new Set([...(waiting ?? []), ...more])
  }
  const begin = (): void => {
    if (!isRead || stopped.signal.aborted || waiting === undefined) return
    // Not at once: what is told within a call comes behind it.
    running ??= Promise.resolve()
      .then(applyAll)
      .finally(() => {
        running = undefined
        begin()
      })
  }
  const end = await state.watch?.(prefixes, (keys) => {
    add(keys ?? 'all')
    begin()
  })
  try {
    await apply(undefined)
  } catch (error) {
    end?.()
    throw error
  }
  isRead = true
  begin()
  return {
    async stop() {
      end?.()
      stopped.abort()
      await running
    },
  }
}
