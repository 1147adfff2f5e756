/** A page of somebody's application, in a browser: it shows a question, and sends its own server what it learns. */
import { StrictMode, createElement } from "react";
import { createRoot } from "react-dom/client";
import { HandraiseQuestion } from "../dist/index.js";

declare const config: { readonly server: string; readonly link: string };
const { server, link } = config;
const told = (word: string): Promise<Response> => fetch(`/told?${word}`);
const forged = { server, link: link.replace(server, "https://evil.example"), onSettled: () => void told("forged") };

createRoot(document.body).render(
  createElement(
    StrictMode,
    null,
    createElement("div", { id: "forged" }, createElement(HandraiseQuestion, forged)),
    createElement(HandraiseQuestion, {
      server,
      link,
      title: "About order A-17",
      className: "question",
      onSettled: (status) => {
        const element = document.querySelector("handraise-question.question");
        const isAlone = document.getElementById("forged")?.childElementCount === 0;
        void told(`${status},${element?.shadowRoot?.querySelector("iframe")?.title},${isAlone}`);
      },
    }),
  ),
);
