/** What the protocols for points have in common, as the table of protocols.test.ts drives them. */
import type { TestNode } from 'svcdb/testkit'

/** A value of the series `<measurement>{host="..."}`: the field `value`, a float. */
export interface Sample {
  host: string
  /** Milliseconds since the Unix epoch. */
  ms: number
  value: number
}

export interface Answer {
  /** All was written, or something was refused. */
  ok: boolean
  /** Of the table of errors; undefined where the wire has no place for it. */
  code: string | undefined
  /** What it says of the counts, where it does. */
  rejected: number | undefined
  text: string
}

export interface Protocol {
  name: string
  write(node: TestNode, measurement: string, samples: readonly Sample[], backfill?: boolean): Promise<Answer>
}
