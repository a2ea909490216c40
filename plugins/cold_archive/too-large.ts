import { SvcError } from 'svcdb/lib/errors'

/** An object that is another one than was put there. @param store its name. */
export function tooLarge(key: string, store: string, maxBytes: number): SvcError {
  return new SvcError('DATABASE_ERROR', `cannot read object "${key}" in ${store}: it has more than the ${maxBytes} bytes that it can have`)
}
