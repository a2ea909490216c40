/** The core: from an answer to fields. No HTTP, no clock. */
import { SvcError } from 'svcdb'

/** The members of a JSON object that are numbers. @throws SvcError INVALID_BODY when it is none, or has none. */
export function numbersOf(text: string): Record<string, number> {
  let answer: unknown
  try {
    answer = JSON.parse(text)
  } catch (error) {
    throw new SvcError('INVALID_BODY', 'cannot read the answer: it is no JSON', { cause: error })
  }
  if (typeof answer !== 'object' || answer === null || Array.isArray(answer)) throw new SvcError('INVALID_BODY', 'cannot read the answer: it is no JSON object')
  const numbers = Object.entries(answer).filter((member): member is [string, number] => typeof member[1] === 'number')
  if (numbers.length === 0) throw new SvcError('INVALID_BODY', 'cannot read the answer: it has no numbers')
  return Object.fromEntries(numbers)
}
