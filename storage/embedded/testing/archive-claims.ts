/** What a data directory remembers of its claim on a store, for tests: a copy of it is a copy of the directory. */
import { randomBytes } from 'node:crypto'
import type { Claim, OwnerOptions } from '../archive/owner.ts'

/** @param before may throw in front of each call. */
export function claimsIn(kept: { claim: Claim }, before: (operation: string) => void = () => {}): Pick<OwnerOptions, 'claims' | 'held' | 'newToken'> {
  return {
    claims: {
      async read() {
        before('read')
        return kept.claim
      },
      async write(claim) {
        before('write')
        kept.claim = claim
      },
    },
    held: undefined,
    newToken: () => randomBytes(4).toString('hex'),
  }
}
