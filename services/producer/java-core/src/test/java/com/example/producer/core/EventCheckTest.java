package com.example.producer.core;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.List;

import com.example.producer.core.Submitted.Body;
import com.example.producer.core.Submitted.Header;
import com.example.producer.core.Submitted.Text;
import com.example.producer.core.Submitted.Update;
import org.junit.jupiter.api.Test;

class EventCheckTest {

    private static final Header HEADER =
            new Header(Shape.IS, Text.ABSENT, Text.ofProto("x"), Text.ABSENT, Text.ABSENT, Text.ABSENT);

    private static Update update(String type, String id, String attributes) {
        return new Update(Shape.IS, new Text(Shape.IS, type), new Text(Shape.IS, id), new Text(Shape.IS, attributes));
    }

    private static Submitted event(Update... updates) {
        return new Submitted(Shape.IS, HEADER, new Body(Shape.IS, Shape.IS, List.of(updates)));
    }

    private static String nested(int levels) {
        return "{\"a\":" + "[".repeat(levels) + "]".repeat(levels) + "}";
    }

    private static void refused(Submitted event, String why) {
        assertThatThrownBy(() -> EventCheck.check(event, 2, true)).isInstanceOf(RefusedException.class).hasMessage(why);
    }

    @Test
    void keepsTheOrderOfEntities() {
        Event event = EventCheck.check(event(update("b", "2", "{}"), update("a", "1", "{\"x\":1}")), 2, true);
        assertThat(event.types()).containsExactly("b", "a");
        assertThat(event.ids()).containsExactly("2", "1");
        assertThat(event.attributes()).containsExactly("{}", "{\"x\":1}");
    }

    @Test
    void refusesInTheWordsOfTheContract() {
        refused(new Submitted(Shape.IS, Header.without(Shape.ABSENT), Body.without(Shape.ABSENT)),
                "Event header event_name is required");
        refused(new Submitted(Shape.IS, Header.without(Shape.OTHER), Body.without(Shape.OTHER)),
                "Invalid type: event_header must be an object");
        refused(event(), "Event body must contain at least one entity");
        refused(event(update("a", "1", "{}"), update("a", "1", "{}"), update("a", "1", "{}")),
                "Event body must not contain more than 2 entities");
        refused(event(Update.without(Shape.ABSENT)), "Invalid type: entity must be an object");
        refused(event(update("", "", "{}")), "Entity type cannot be empty");
        refused(event(update("a", "\0", "{}")), "Entity ID must not contain NUL");
        refused(event(update("a", "1", nested(65))), "Attributes must not be nested deeper than 64 levels");
        refused(event(update("a", "1", "{\"a\":\"\\u0000\"}")), "Attributes must not contain NUL");
    }

    @Test
    void countsCharacters() {
        String cars = "🚗".repeat(255);
        assertThat(EventCheck.check(event(update(cars, cars, nested(64))), 2, true).ids()).containsExactly(cars);
        refused(event(update("a", cars + "x", "{}")), "Entity ID must not be longer than 255 characters");
    }
}
