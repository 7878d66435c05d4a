package weir.gateway;

import java.util.List;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.cloud.gateway.route.Route;

/** Spring Cloud Gateway as it is: its whole configuration is in the application.yaml of the directory in which it is started. */
@SpringBootApplication
public class Application {
  public static void main(String[] arguments) {
    if (List.of(arguments).contains("--version")) {
      System.out.println("Spring Cloud Gateway " + Route.class.getPackage().getImplementationVersion());
      return;
    }
    SpringApplication.run(Application.class, arguments);
  }
}
