/** What leaves a step: values that go out under a bound on what may, and bytes that are kept beside the journal. */
import type { EffectDescription } from './index.ts'
import type { Label, Sensitivity } from './labels.ts'

/** An effect that takes a value out: `args` is the value. */
export interface Sink extends Omit<EffectDescription, 'args' | 'mutates' | 'outboundBytes'> {
  args: EffectDescription['args']
  /** The most sensitive that may go there. */
  accepts: Sensitivity
  /** Whether what comes from outside may go there; default: only where it changes nothing. */
  acceptsUntrusted?: boolean
  /** Default: true. */
  mutates?: boolean
  /** Of the value; default: that of all that the step has read. */
  label?: Label
}

/** Bytes that a step keeps. */
export interface BlobOptions {
  /** Default: that of all that the step has read. */
  label?: Label
}

/** What may be asked of bytes that are kept: they are found by what they are. */
export interface BlobContext {
  /**
   * Keeps up to 4 MiB for good, once however often they are given; they belong to the case of the run, or else to the run.
   * @returns their SHA-256, 64 hexadecimal digits, which is all that the journal has of them. @throws EffectError for more.
   */
  storeBlob(bytes: Uint8Array, options?: BlobOptions): Promise<string>
  /** @returns bytes that this case or run has kept; the step has read them then. @throws EffectError when it has not. */
  readBlob(digest: string): Promise<Uint8Array>
}
