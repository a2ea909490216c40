/** A configured value that must never be shown: it prints as `[redacted]` everywhere; `reveal()` is the only way to the text. */

import { inspect } from 'node:util'
import { type TUnsafe, Type } from '../lib/schema/index.ts'
import type { Settable } from './overrides.ts'

const MARK = 'x-svc-secret'
const SHOWN = '[redacted]'

/** A text that only `reveal` gives: printed, put into a string or written as JSON it is `[redacted]`. */
export class Secret {
  readonly #text: string

  constructor(text: string) {
    this.#text = text
  }

  /** The schema of a secret key: a string in the file, a `Secret` in the plugin's config. */
  static schema(options: { description: string; minLength?: number; maxLength?: number; settable?: Settable }): TUnsafe<Secret> {
    return Type.Unsafe<Secret>({ type: 'string', ...options, [MARK]: true })
  }

  reveal(): string {
    return this.#text
  }

  toString(): string {
    return SHOWN
  }

  toJSON(): string {
    return SHOWN
  }

  [inspect.custom](): string {
    return SHOWN
  }
}

export function isSecretSchema(schema: object): boolean {
  return MARK in schema
}
