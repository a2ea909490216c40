/** Small files of JSON with a checksum in them, which programs that know none read as well. Layout: docs/formats/forward-queue.md. */
import { crc32 } from 'node:zlib'

const END = /,"checksum":"([0-9a-f]{8})"\}\n?$/

/** @param value has at least one member. */
export function checkedText(value: object): string {
  const body = JSON.stringify(value).slice(0, -1)
  return `${body},"checksum":"${sumOf(body)}"}\n`
}

/** What older versions wrote has no checksum, and is taken as it is. @throws Error in a few words. */
export function checkedValue(text: string): unknown {
  const end = END.exec(text)
  if (end !== null && sumOf(text.slice(0, end.index)) !== end[1]) throw new Error('its checksum does not fit')
  return JSON.parse(text)
}

const sumOf = (text: string): string => crc32(text).toString(16).padStart(8, '0')
