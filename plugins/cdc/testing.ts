/** A client of event streams, after the WHATWG's algorithm. */
export interface Event {
  event: string
  id: string
  // biome-ignore lint/suspicious/noExplicitAny: JSON
  data: any
}

export class EventClient {
  readonly events: Event[] = []
  comments = 0
  lastId = ''
  /** Resolves when the stream has ended. */
  readonly ended: Promise<void>
  private readonly abort = new AbortController()

  private constructor(body: ReadableStream<Uint8Array>, abort: AbortController) {
    this.abort = abort
    this.ended = this.read(body).catch(() => {})
  }

  static async open(url: string, headers: Record<string, string> = {}): Promise<EventClient> {
    const abort = new AbortController()
    const answer = await fetch(url, { headers, signal: abort.signal })
    if (answer.status !== 200 || answer.body === null) throw new Error(`${answer.status} ${await answer.text()}`)
    return new EventClient(answer.body, abort)
  }

  async until(count: number): Promise<Event[]> {
    for (const end = Date.now() + 10_000; this.events.length < count && Date.now() < end; ) await new Promise((resolve) => setTimeout(resolve, 2))
    return this.events
  }

  close(): Promise<void> {
    this.abort.abort()
    return this.ended
  }

  private async read(body: ReadableStream<Uint8Array>): Promise<void> {
    const decoder = new TextDecoder()
    let text = ''
    for await (const bytes of body) {
      text += decoder.decode(bytes, { stream: true })
      const blocks = text.split('\n\n')
      text = blocks.pop() as string
      for (const block of blocks) this.take(block.split('\n'))
    }
  }

  private take(lines: string[]): void {
    let event = 'message'
    let data: string | undefined
    for (const line of lines) {
      const [, name, value] = /^([^:]*):? ?(.*)$/.exec(line) as RegExpExecArray
      if (name === '') this.comments++
      if (name === 'event') event = value
      if (name === 'data') data = data === undefined ? value : `${data}\n${value}`
      if (name === 'id') this.lastId = value
    }
    if (data !== undefined) this.events.push({ event, id: this.lastId, data: JSON.parse(data) })
  }
}
