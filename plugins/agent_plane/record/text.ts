/** Texts that others have written, as records take them: JSON has no form for half of a surrogate pair, which a cut may leave and a body may have as "\ud83d". */
import { SvcError } from 'svcdb/lib/errors'

const MAX_REASON = 4096

/** At most so many characters of it, each of them whole. */
export function shortened(text: string, most: number): string {
  return text.slice(0, most).toWellFormed()
}

/** @param what as in "cannot take the reason". @throws SvcError BAD_REQUEST. */
export function requireWhole(text: string, what: string): void {
  if (!text.isWellFormed()) throw new SvcError('BAD_REQUEST', `cannot take the ${what}: it has half of a surrogate pair; write whole characters`)
}

/** Why somebody decides. @throws SvcError BAD_REQUEST. */
export function checkReason(reason: string): void {
  if (reason.trim() === '' || reason.length > MAX_REASON)
    throw new SvcError('BAD_REQUEST', `cannot take a decision without a reason: it has 1 to ${MAX_REASON} characters`)
  requireWhole(reason, 'reason')
}
