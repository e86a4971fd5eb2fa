// A dialog of the browser: it takes the focus, and gives it back.

import { html, useEffect, useRef } from '../vendor/preact-htm.js';

export function Dialog({ label, close, cls = '', children }) {
  const element = useRef(null);
  useEffect(() => {
    const dialog = element.current;
    if (!dialog.open) dialog.showModal();
    return () => dialog.close();
  }, []);
  const outside = (event) => {
    if (event.target === element.current) close();
  };
  const cancelled = (event) => {
    event.preventDefault();
    close();
  };
  return html`<dialog class=${cls} ref=${element} aria-label=${label} onCancel=${cancelled} onClick=${outside}>
    <div class="dialog-body">${children}</div>
  </dialog>`;
}
