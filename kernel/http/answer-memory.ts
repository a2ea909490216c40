/**
 * Bytes of answers that are made and not taken by their clients, by namespace: what jobs have emitted, and what waits for sockets.
 *
 * Invariants
 * - Soon after they have more than the capacity, answers are cut until they have not: of the namespace that has most the one that has moved least recently. So who
 *   does not read goes before who reads slowly, and no namespace takes the room of another.
 * - An answer that is the only one stays whatever its size, which has limits of its own.
 * - A client sees that its answer was cut: the connection is closed before its end.
 */

/** Below this an answer is not counted: its connection takes about as much beside it. */
export const SMALLEST_ANSWER = 8 * 1024
const LOOK_MS = 250

export interface HeldAnswer {
  namespace: string
  /** That wait now. */
  bytes(): number
  /** That have gone to the client, over the connection. */
  sent(): number
  /** It was sent, or nobody is there to read it. */
  over(): boolean
  /** Gives up what it has, and closes the connection. */
  cut(): void
}

interface Known {
  answer: HeldAnswer
  bytes: number
  sent: number
  /** The look at which it had moved last. */
  moved: number
}

export class AnswerMemory {
  private readonly capacity: number
  private readonly onCut: (answers: number) => void
  /** In the order in which they began. */
  private readonly known = new Map<HeldAnswer, Known>()
  private looks = 0
  private timer: NodeJS.Timeout | undefined

  /** @param onCut told of each look that cut answers. */
  constructor(capacity: number, onCut: (answers: number) => void) {
    this.capacity = capacity
    this.onCut = onCut
  }

  add(answer: HeldAnswer): void {
    this.known.set(answer, { answer, bytes: 0, sent: 0, moved: this.looks })
    this.timer ??= setInterval(() => this.look(), LOOK_MS).unref()
  }

  remove(answer: HeldAnswer): void {
    this.known.delete(answer)
    if (this.known.size === 0) this.close()
  }

  /** Of all namespaces, now. */
  get total(): number {
    let bytes = 0
    for (const answer of this.known.keys()) bytes += answer.bytes()
    return bytes
  }

  close(): void {
    clearInterval(this.timer)
    this.timer = undefined
  }

  /** Cuts all that are not over: the server ends. */
  cutAll(): void {
    for (const answer of this.known.keys()) if (!answer.over()) answer.cut()
  }

  /** Counts what there is, and cuts what is too much. */
  look(): void {
    this.looks++
    const held = new Map<string, { bytes: number; list: Known[] }>()
    let total = 0
    let answers = 0
    for (const one of this.known.values()) {
      const { answer } = one
      if (answer.over()) {
        // Of requests that were sent ahead the answers do not hear that the connection is gone.
        answer.cut()
        this.remove(answer)
        continue
      }
      const sent = answer.sent()
      if (sent !== one.sent) [one.sent, one.moved] = [sent, this.looks]
      one.bytes = answer.bytes()
      if (one.bytes === 0) continue
      total += one.bytes
      answers++
      const own = held.get(answer.namespace)
      if (own === undefined) held.set(answer.namespace, { bytes: one.bytes, list: [one] })
      else {
        own.bytes += one.bytes
        own.list.push(one)
      }
    }
    if (total <= this.capacity) return
    // Of those that have moved at the same time the oldest one is the last.
    for (const { list } of held.values()) list.reverse().sort((a, b) => b.moved - a.moved)
    let cut = 0
    for (; total > this.capacity && answers > 1; answers--) {
      const most = [...held.values()].reduce((a, b) => (b.bytes > a.bytes ? b : a))
      const { answer, bytes } = most.list.pop() as Known
      most.bytes -= bytes
      total -= bytes
      // Others of the same connection go with the first.
      if (!answer.over()) cut++
      answer.cut()
      this.remove(answer)
    }
    this.onCut(cut)
  }
}
