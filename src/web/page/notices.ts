// What keeps a gateway from its whole work, above everything else: safe mode, a guard that does less, a configuration that
// does not count.
import type { Status } from './api'
import { byId, el, List, setAttribute, setText, show, type View } from './dom'
import { notices } from './format'

type Notice = ReturnType<typeof notices>[number]

function noticeView(): View<Notice> {
  const node = el('li')
  return {
    node,
    update({ text, bad }) {
      setAttribute(node, 'data-bad', String(bad))
      setText(node, text)
    },
  }
}

export function createNotices(): (status: Status) => void {
  const box = byId('notices')
  const list = new List<Notice>(box, ({ kind }) => kind, noticeView)
  return status => {
    const all = notices(status)
    list.update(all)
    show(box, all.length > 0)
  }
}
