import type { IncomingMessage } from 'node:http'

/** Lets two routes share a path: one for bodies of the media type it names, `constraints: { mediaType }`, and one for all others. */
export const byMediaType = {
  name: 'mediaType',
  storage() {
    const handlers = new Map<string, unknown>()
    return { get: (type: string) => handlers.get(type) ?? null, set: (type: string, handler: unknown) => void handlers.set(type, handler) }
  },
  deriveConstraint: (request: IncomingMessage) => request.headers['content-type']?.split(';', 1)[0].trim().toLowerCase(),
} as never
