/**
 * Keys of messages that are not to be written twice (dedup_key). A message with a key that was written whole within the window is left out; while it is under way
 * the one with the same key waits for what becomes of it.
 */
import { type CallContext, IdempotencyKeys, type Svc, type WriteResult } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'

const MAX_KEY_LENGTH = 255

export class DedupKeys {
  /** undefined: keys are ignored. */
  private readonly seen: IdempotencyKeys | undefined

  constructor({ server, clock }: Pick<Svc, 'server' | 'clock'>) {
    const { dedup_window_secs: window, max_dedup_entries: entries, write_timeout_secs: wait } = server
    this.seen = window === 0 ? undefined : new IdempotencyKeys(window * 1000, entries, () => clock.monotonic(), wait * 1000)
  }

  /**
   * @param own called before the wait for a key that is under way: it may be the caller's own to bring on its way.
   * @returns the key as claimed; null when it was written before, undefined when keys are ignored.
   * @throws BAD_REQUEST for one that is too long, WRITE_TIMEOUT when what is under way takes too long.
   */
  async claim(context: CallContext, given: string, own?: (key: string) => void): Promise<string | null | undefined> {
    const { seen } = this
    if (seen === undefined || given === '') return undefined
    if (given.length > MAX_KEY_LENGTH) throw new SvcError('BAD_REQUEST', `cannot use a dedup_key of ${given.length} characters: it has 1 to ${MAX_KEY_LENGTH}`)
    const key = IdempotencyKeys.of(context, given)
    return (await seen.enter(key, () => own?.(key))) ? key : null
  }

  /** What has become of the message of a claimed key. Call it once for each. */
  end(key: string, whole: boolean): void {
    this.seen?.end(key, whole)
  }

  /** So that it stays under way for as long as the storage is. @param whole whether the message is written whole if none of its rows is refused. */
  endLate(key: string, whole: boolean, written: Promise<WriteResult>): void {
    void written.then(
      ({ rejected }) => this.end(key, whole && rejected === 0),
      () => this.end(key, false),
    )
  }

  /** Frees the keys of a namespace that is gone. */
  forget(namespace: string): void {
    this.seen?.forget(namespace)
  }
}
