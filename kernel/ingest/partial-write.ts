/** How every protocol says that a write was refused, whole or in part: what could be stored has been. */
import { type ErrorCode, errorKind, SvcError } from '../lib/errors/index.ts'
import type { Rejection } from '../storage/storage.ts'

/** Counts of a write of which admission has refused rows, as `WriteResult` has them. */
export interface Refused {
  written: number
  rejected: number
  /** At least one, the first in order of arrival. */
  rejections: readonly Rejection[]
}

/** How the messages of a protocol name its points. */
export interface RefusedTexts {
  /** Where a rejected one stood: `points[3]`, `line 4`. */
  place(position: number): string
  /** What was written, counted; `5 points` by default. */
  counted?(written: number): string
  /** Senders repeat what they are told to repeat: what admission refused must not look so, for it would be refused again, and hold up all that comes after. */
  senderRepeats?: true
  /** Members for the answer's body beside the counts. */
  detail?: Record<string, unknown>
}

const POINTS: RefusedTexts = { place: (position) => `points[${position}]` }

/** What admission refused, alone in its kind and with nothing written, has its own code; else it is a PARTIAL_WRITE with both counts. */
export function partialWrite({ written, rejected, rejections }: Refused, texts: RefusedTexts = POINTS): SvcError {
  const { code, message, position } = rejections[0]
  const detail = { written, rejected, ...texts.detail }
  const first = `${texts.place(position)}: ${message}`
  const repeated = texts.senderRepeats && errorKind(code)?.retryAfter !== undefined
  const alike = code !== 'PARTIAL_WRITE' && errorKind(code) !== undefined && !repeated && rejections.every((rejection) => rejection.code === code)
  if (written === 0 && alike) return new SvcError(code as ErrorCode, rejected === 1 ? first : `${first} (the first of ${rejected} rejected)`, { detail })
  const counted = texts.counted?.(written) ?? `${written} point${written === 1 ? '' : 's'}`
  return new SvcError('PARTIAL_WRITE', `partial write: ${counted} written, ${rejected} rejected; first: ${first}`, { detail })
}
